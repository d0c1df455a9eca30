//! Resolution of conditions on related documents to conditions on the document itself.
//!
//! Copies beside the reference answer a condition without a query. Otherwise a query reads the ids of the related documents, and
//! the document must have one of the ids. The innermost condition is resolved first.

use std::collections::BTreeSet;

use bson::{RawBson, RawDocumentBuf, rawdoc};

use super::covering::ConditionOnCopies;
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture,
        operation::{AggregateOperation, FindOperation, RelatedPlan, RelatedStrategy, Stage},
    },
    error,
    language::{
        field::Path,
        query::{
            FilterNode, RelatedCondition, Relation, field_test, projection_of,
            single_field_document, to_raw,
        },
    },
    model::{
        decode,
        ids::{OrderedId, id_batches, id_values},
    },
    schema::Model,
    session::{
        access::{Access, find_matching},
        soft_delete::Visibility,
    },
};

/// The maximum number of ids in a condition on related documents.
const MAX_RELATED_IDS: usize = 10_000;

/// Resolves the conditions on related documents in a filter of a model.
pub(crate) async fn resolve_related(
    access: &Access,
    model: &'static Model,
    node: FilterNode,
) -> Result<FilterNode> {
    match node.has_related() {
        false => Ok(node),
        true => Resolver::new(access, false).resolve_in(model, node).await,
    }
}

/// Resolves the conditions on related documents in a filter of a model, and returns the plan of each.
pub(crate) async fn explain_related(
    access: &Access,
    model: &'static Model,
    node: FilterNode,
) -> Result<(FilterNode, Vec<RelatedPlan>)> {
    let mut resolver = Resolver::new(access, true);
    let node = resolver.resolve_in(model, node).await?;
    Ok((node, resolver.plans))
}

struct Resolver {
    access: Access,
    is_explained: bool,
    plans: Vec<RelatedPlan>,
}

/// The place of a condition: the model, or the elements of an array of the model.
#[derive(Clone)]
struct Place {
    model: &'static Model,
    /// The dotted path of the elements. Empty for the document.
    elements: String,
}

impl Place {
    /// Returns the dotted path from the document.
    fn full_path(&self, path: &Path) -> Result<String> {
        let path = path.dotted()?;
        Ok(match (self.elements.as_str(), path) {
            ("", path) => path.to_owned(),
            (elements, "") => elements.to_owned(),
            (elements, path) => format!("{elements}.{path}"),
        })
    }
}

impl Resolver {
    fn new(access: &Access, is_explained: bool) -> Self {
        Self {
            // A query for soft-deleted documents does not make soft-deleted related documents visible.
            access: access.clone().with_visibility(Visibility::Present),
            is_explained,
            plans: Vec::new(),
        }
    }

    async fn resolve_in(&mut self, model: &'static Model, node: FilterNode) -> Result<FilterNode> {
        let place = Place {
            model,
            elements: String::new(),
        };
        let resolved = self.resolve(place, node).await;
        resolved.map_err(error::naming_model(model))
    }

    fn resolve(&mut self, place: Place, node: FilterNode) -> BoxFuture<'_, Result<FilterNode>> {
        Box::pin(async move {
            Ok(match node {
                FilterNode::Related(related) => self.resolve_related(&place, *related).await?,
                FilterNode::And(nodes) => {
                    let nodes = self.resolve_all(&place, nodes).await?.into_iter();
                    nodes.fold(FilterNode::All, FilterNode::and)
                }
                FilterNode::Or(nodes) => FilterNode::Or(self.resolve_all(&place, nodes).await?),
                FilterNode::Not(node) => {
                    FilterNode::Not(Box::new(self.resolve(place, *node).await?))
                }
                FilterNode::Element(path, node) => {
                    let elements = place.full_path(&path)?;
                    let inside = Place { elements, ..place };
                    FilterNode::Element(path, Box::new(self.resolve(inside, *node).await?))
                }
                FilterNode::All
                | FilterNode::Test(..)
                | FilterNode::Variant(..)
                | FilterNode::Expression(_)
                | FilterNode::Invalid(_) => node,
            })
        })
    }

    async fn resolve_all(
        &mut self,
        place: &Place,
        nodes: Vec<FilterNode>,
    ) -> Result<Vec<FilterNode>> {
        let mut resolved = Vec::with_capacity(nodes.len());
        for node in nodes {
            resolved.push(self.resolve(place.clone(), node).await?);
        }
        Ok(resolved)
    }

    async fn resolve_related(
        &mut self,
        place: &Place,
        mut related: RelatedCondition,
    ) -> Result<FilterNode> {
        ensure_in_schema(&self.access, related.model)?;
        related.condition = self.resolve_in(related.model, related.condition).await?;
        let reference = match related.relation {
            Relation::Targets => place.full_path(&related.reference)?,
            Relation::Children => related.reference.dotted()?.to_owned(),
        };
        let copies = match related.relation {
            Relation::Targets => {
                ConditionOnCopies::from_related(&self.access, place.model, &reference, &related)?
            }
            Relation::Children => None,
        };
        if let Some(copies) = copies {
            let fields = copies.fields.iter().map(|field| place.full_path(field));
            let fields = fields.collect::<Result<_>>()?;
            self.add_plan(&related, reference, RelatedStrategy::Copy { fields });
            return Ok(copies.node);
        }
        let find = related_query(&related)?;
        let ids = self.read_ids(&related, find.clone()).await?;
        if self.is_explained {
            let plan = Box::new(self.access.explain(related.model, find).await?);
            let count = ids.len();
            self.add_plan(&related, reference, RelatedStrategy::Ids { count, plan });
        }
        let path = match related.relation {
            Relation::Targets => related.reference,
            Relation::Children => Path::ROOT.subfield("_id"),
        };
        let ids = RawBson::Array(ids.into_iter().collect());
        Ok(field_test::<()>(&path, "$in", Ok(ids)).into_node())
    }

    /// Reads the ids for the condition: the ids of the targets, or the ids to which the children refer.
    async fn read_ids(
        &self,
        related: &RelatedCondition,
        find: FindOperation,
    ) -> Result<Vec<RawBson>> {
        let model = related.model;
        let values = match related.relation {
            Relation::Targets => self.access.find_all(model, find).await?,
            Relation::Children => {
                let aggregate = parent_ids_query(related, find)?;
                self.access.aggregate_all(model, aggregate).await?
            }
        };
        let ids = values.iter().filter_map(|value| decode::stored_id(value));
        let ids: BTreeSet<_> = ids
            .map(|id| OrderedId::from_id(&RawBson::from(id)))
            .collect();
        let ids = id_values(&ids)?;
        if id_batches(&ids, MAX_RELATED_IDS).nth(1).is_some() {
            return Err(too_many_ids_error(related));
        }
        Ok(ids)
    }

    fn add_plan(
        &mut self,
        related: &RelatedCondition,
        reference: String,
        strategy: RelatedStrategy,
    ) {
        if self.is_explained {
            self.plans.push(RelatedPlan {
                collection: related.model.collection.to_owned(),
                reference,
                strategy,
            });
        }
    }
}

/// Ensures that the schema of the database has the model of the related documents. The compiler checks targets, but not children.
fn ensure_in_schema(access: &Access, model: &Model) -> Result<()> {
    let mut models = access.schema_models().iter();
    if models.any(|known| known.collection == model.collection) {
        return Ok(());
    }
    let message = format!(
        "the condition concerns the model `{}`, which is not in the schema of the database: add the model to the schema",
        model.name
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Returns the query for the related documents that meet the condition.
fn related_query(related: &RelatedCondition) -> Result<FindOperation> {
    Ok(FindOperation {
        projection: Some(match related.relation {
            Relation::Targets => rawdoc! { "_id": 1 },
            Relation::Children => projection_of([related.reference.dotted()?])?,
        }),
        limit: match related.relation {
            Relation::Targets => Some(MAX_RELATED_IDS as u64 + 1),
            // Several children can refer to one document.
            Relation::Children => None,
        },
        options: Stage::JOINS.step("read the ids of a condition").into(),
        ..find_matching(related.model.collection, &to_raw(&related.condition)?)
    })
}

/// Returns the aggregate with the distinct ids to which the children refer, each as an `_id`. Children without a reference count
/// for no document.
fn parent_ids_query(related: &RelatedCondition, find: FindOperation) -> Result<AggregateOperation> {
    let reference = related.reference.dotted()?;
    let is_index = |name: &str| name.parse::<u64>().is_ok();
    if reference.split('.').any(is_index) {
        let message = "a condition on children cannot use the reference at one index of an array: use the references of all elements";
        return Err(Error::new(ErrorKind::Unsupported, message).with_path(reference));
    }
    let mut pipeline = Vec::new();
    if !find.filter.is_empty() {
        pipeline.push(single_field_document("$match", find.filter)?);
    }
    for array in related.reference.traversed_arrays().chain([reference]) {
        pipeline.push(single_field_document("$unwind", format!("${array}"))?);
    }
    let key = single_field_document("_id", format!("${reference}"))?;
    pipeline.push(single_field_document("$group", key)?);
    pipeline.push(single_field_document("$limit", MAX_RELATED_IDS as i64 + 1)?);
    Ok(AggregateOperation {
        collection: find.collection,
        pipeline,
        variables: RawDocumentBuf::new(),
        options: find.options,
    })
}

fn too_many_ids_error(related: &RelatedCondition) -> Error {
    let reference = &related.reference;
    let advice = match related.relation {
        // No copy answers a condition on the targets of a list.
        Relation::Targets if reference.meets_array() => String::new(),
        Relation::Targets => {
            format!(
                ", or declare a copy of the compared fields beside `{reference}`, with a delete rule for the reference"
            )
        }
        Relation::Children => {
            ", or declare a rollup of the children in the document, such as a `#[count]`".to_owned()
        }
    };
    let message = format!(
        "the condition on `{}`, by the reference `{reference}`, has more than {MAX_RELATED_IDS} ids or 6 MB of ids: narrow the \
         condition{advice}",
        related.model.collection,
    );
    Error::new(ErrorKind::Unsupported, message)
}
