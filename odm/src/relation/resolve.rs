//! Resolution of conditions on related documents to conditions on the document itself.
//!
//! Copies beside the reference answer a condition without a query. Otherwise a query reads the ids of the related documents, and
//! the document must have one of the ids. If there are too many ids, a read searches the related documents of each document instead
//! (`session/lookup.rs`). The innermost condition is resolved first.

use std::collections::BTreeSet;

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

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
        access::{Access, add_condition, find_matching},
        lookup::{self, array_name, lookup_stage},
        soft_delete::Visibility,
    },
};

/// The maximum number of ids in a condition on related documents.
const MAX_RELATED_IDS: usize = 10_000;

/// A filter without conditions on related documents.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) filter: FilterNode,
    /// The stages that add the arrays of related documents, which the filter reads.
    pub(crate) lookups: Vec<RawDocumentBuf>,
}

/// Resolves the conditions on related documents in the filter of a write or of a join.
///
/// # Errors
///
/// [`Unsupported`](ErrorKind::Unsupported) for a condition with too many ids.
pub(crate) async fn resolve_related(
    access: &Access,
    model: &'static Model,
    node: FilterNode,
) -> Result<FilterNode> {
    if !node.has_related() {
        return Ok(node);
    }
    let mut resolver = Resolver::new(access);
    resolver.allows_lookups = false;
    Ok(resolver.resolve_in(model, node).await?.filter)
}

/// Resolves the conditions on related documents in the filter of a query.
pub(crate) async fn resolve_for_read(
    access: &Access,
    model: &'static Model,
    node: FilterNode,
) -> Result<Resolved> {
    match node.has_related() {
        false => Ok(Resolved {
            filter: node,
            lookups: Vec::new(),
        }),
        true => Resolver::new(access).resolve_in(model, node).await,
    }
}

/// Resolves the conditions on related documents in the filter of a query, and returns the plan of each.
pub(crate) async fn explain_related(
    access: &Access,
    model: &'static Model,
    node: FilterNode,
) -> Result<(Resolved, Vec<RelatedPlan>)> {
    let mut resolver = Resolver::new(access);
    resolver.is_explained = true;
    let resolved = resolver.resolve_in(model, node).await?;
    Ok((resolved, resolver.plans))
}

struct Resolver {
    access: Access,
    allows_lookups: bool,
    is_explained: bool,
    plans: Vec<RelatedPlan>,
    /// The lookups of the filter that is resolved now.
    lookups: Vec<RawDocumentBuf>,
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
    fn new(access: &Access) -> Self {
        Self {
            // A query for soft-deleted documents does not make soft-deleted related documents visible.
            access: access.clone().with_visibility(Visibility::Present),
            allows_lookups: true,
            is_explained: false,
            plans: Vec::new(),
            lookups: Vec::new(),
        }
    }

    async fn resolve_in(&mut self, model: &'static Model, node: FilterNode) -> Result<Resolved> {
        let place = Place {
            model,
            elements: String::new(),
        };
        let outer = std::mem::take(&mut self.lookups);
        let filter = self.resolve(place, node).await;
        Ok(Resolved {
            filter: filter.map_err(error::naming_model(model))?,
            lookups: std::mem::replace(&mut self.lookups, outer),
        })
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
        let condition = std::mem::replace(&mut related.condition, FilterNode::All);
        let Resolved { filter, lookups } = self.resolve_in(related.model, condition).await?;
        related.condition = filter;
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
        if let Some(copies) = copies.filter(|_| lookups.is_empty()) {
            let fields = copies.fields.iter().map(|field| place.full_path(field));
            let fields = fields.collect::<Result<_>>()?;
            self.add_plan(&related, reference, RelatedStrategy::Copy { fields });
            return Ok(copies.node);
        }
        let mut find = related_query(&related)?;
        find.options.lookups.clone_from(&lookups);
        let Some(ids) = self.read_ids(&related, find.clone()).await? else {
            return self.look_up(place, related, reference, lookups).await;
        };
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

    /// Returns the condition that the array of a lookup is not empty, and adds the lookup. `lookups` has the lookups of the condition
    /// on the related documents.
    async fn look_up(
        &mut self,
        place: &Place,
        related: RelatedCondition,
        reference: String,
        lookups: Vec<RawDocumentBuf>,
    ) -> Result<FilterNode> {
        // A lookup compares all elements of an array at once, and takes no index of an element.
        let is_comparable = place.elements.is_empty() && !has_position(&reference);
        if !self.allows_lookups || !is_comparable {
            return Err(too_many_ids_error(&related));
        }
        let (local, foreign) = match related.relation {
            Relation::Targets => (reference.as_str(), "_id"),
            Relation::Children => ("_id", reference.as_str()),
        };
        let mut condition = to_raw(&related.condition)?;
        let model = related.model;
        self.access.restrict_filter(model, &mut condition)?;
        let mut stages = Vec::new();
        lookup::add_filter(&mut stages, condition.clone(), lookups.clone(), None)?;
        let array = array_name(self.lookups.len());
        let stage = lookup_stage(model.collection, (local, foreign), stages, &array)?;
        self.lookups.push(stage);
        if self.is_explained {
            // No document has this value.
            add_condition(
                &mut condition,
                foreign,
                single_field_document("$eq", RawBson::MinKey)?,
            )?;
            let mut search = find_matching(model.collection, &condition);
            search.options.lookups = lookups;
            let plan = Box::new(self.access.explain(model, search).await?);
            self.add_plan(
                &related,
                reference.clone(),
                RelatedStrategy::Lookup { plan },
            );
        }
        let empty = RawBson::Array(RawArrayBuf::new());
        let array = Path::ROOT.append_name(&array);
        Ok(field_test::<()>(&array, "$ne", Ok(empty)).into_node())
    }

    /// Reads the ids for the condition: the ids of the targets, or the ids to which the children refer. `None` for too many ids.
    async fn read_ids(
        &self,
        related: &RelatedCondition,
        find: FindOperation,
    ) -> Result<Option<Vec<RawBson>>> {
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
        let is_bounded = id_batches(&ids, MAX_RELATED_IDS).nth(1).is_none();
        Ok(is_bounded.then_some(ids))
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

/// Whether a path selects an array element by its position.
fn has_position(path: &str) -> bool {
    path.split('.').any(|name| name.parse::<u64>().is_ok())
}

/// Returns the aggregate with the distinct ids to which the children refer, each as an `_id`. Children without a reference count
/// for no document.
fn parent_ids_query(related: &RelatedCondition, find: FindOperation) -> Result<AggregateOperation> {
    let reference = related.reference.dotted()?;
    if has_position(reference) {
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
