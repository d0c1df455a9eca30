//! The repair of findings.

use std::{fmt, pin::Pin};

use bson::RawBson;
use serde::Serialize;

use super::{Check, CheckToken, Finding, FindingKind, Findings, IntoCheckToken, declared};
use crate::{
    Error, ErrorKind, Result,
    model::document::Document,
    schema::{
        Contains, InverseLink, Model, OnDelete, OverflowField, ReferenceLink, Schema, SequenceField,
    },
    session::{access::Access, scope::AllScopes},
    write::{
        DeleteRule, ReferenceRepair, assign_missing_number, delete_orphan, recompute_fields,
        recompute_parent, refill_copy, remove_duplicates, repair_array, repair_reference,
        rules_targeting,
    },
};

/// Repairs the findings of a [`Check`]; made by [`Database::repair`](crate::Database::repair).
///
/// By default the repair writes nothing and reports the planned repairs. Call [`apply`](Self::apply) to write. The repair covers:
///
/// - links with sides that do not match: the reference decides
/// - references to missing documents, by the `on_delete` rule
/// - copies, rollups and computed fields, also in documents that are older than the declaration
/// - missing sequence numbers: the documents get the next numbers in the order of the `_id`
/// - overflow arrays
///
/// Other findings need a decision by the application.
///
/// The repair can run while the application writes. Each document is read again. The write does nothing if the document or the
/// other document has changed meanwhile.
#[must_use = "the repair starts when this value is awaited or streamed"]
pub struct Repair<S> {
    check: Check<S>,
    applies: bool,
}

impl<S: Schema> Repair<S> {
    pub(crate) fn new(access: &Access) -> Self {
        Self {
            check: Check::for_operation(access, "repair"),
            applies: false,
        }
    }

    /// Checks only the documents of this model. The repair can write to documents of other models.
    pub fn only<T: Document>(mut self) -> Self
    where
        S: Contains<T, AllScopes>,
    {
        self.check = self.check.only();
        self
    }

    /// Continues after the documents that were checked before this [token](Repairs::token) was taken. See [`Check::after`].
    pub fn after(mut self, token: impl IntoCheckToken) -> Self {
        self.check = self.check.after(token);
        self
    }

    /// Writes the repairs instead of only reporting them.
    pub fn apply(mut self) -> Self {
        self.applies = true;
        self
    }

    /// Returns the findings and repairs one by one.
    pub fn stream(self) -> Repairs {
        Repairs {
            access: self.check.access.clone(),
            models: self.check.models.iter().map(|check| check.model).collect(),
            has_unrepaired: false,
            findings: self.check.stream(),
            applies: self.applies,
        }
    }
}

/// Returns all findings and repairs in a report.
impl<S: Schema> IntoFuture for Repair<S> {
    type Output = Result<RepairReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        let mut repairs = self.stream();
        Box::pin(async move {
            let mut steps = Vec::new();
            while let Some(step) = repairs.next().await {
                steps.push(step?);
            }
            Ok(RepairReport {
                documents: repairs.findings.documents,
                steps,
            })
        })
    }
}

/// The findings and repairs of a [`Repair`], one by one.
#[must_use = "the repair reads documents only when `next` is called"]
pub struct Repairs {
    access: Access,
    /// The checked models.
    models: Vec<&'static Model>,
    /// Whether a finding about derived data is not repaired.
    has_unrepaired: bool,
    findings: Findings,
    applies: bool,
}

impl Repairs {
    /// Returns the next step, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Errors of the backend. The repair does not continue after an error: start another repair with [`Repair::after`] and the
    /// [token](Self::token).
    pub async fn next(&mut self) -> Option<Result<RepairStep>> {
        let finding = match self.findings.next().await {
            Some(Ok(finding)) => finding,
            Some(Err(error)) => return Some(Err(error)),
            None => return self.record_declarations().await.err().map(Err),
        };
        let action = RepairAction::from_finding(&self.access, &finding);
        let (remedy, outcome) = match action {
            Err(reason) => (None, Ok(RepairOutcome::Impossible { why: reason })),
            Ok(action) if !self.applies => (Some(action.remedy), Ok(RepairOutcome::Planned)),
            Ok(action) => (Some(action.remedy), action.apply_repair(&self.access).await),
        };
        let is_derived = matches!(
            finding.kind,
            FindingKind::Stale { .. }
                | FindingKind::WrongCount { .. }
                | FindingKind::WrongComputedField { .. }
                | FindingKind::MissingNumber
                | FindingKind::Cycle { .. }
        );
        let is_unrepaired = !matches!(outcome, Ok(RepairOutcome::Done | RepairOutcome::NotNeeded));
        self.has_unrepaired |= is_derived && is_unrepaired;
        Some(outcome.map(|outcome| RepairStep {
            finding,
            remedy,
            outcome,
        }))
    }

    /// Records the declarations of derived fields: all documents match these declarations now.
    async fn record_declarations(&mut self) -> Result<()> {
        let models = std::mem::take(&mut self.models);
        if self.applies && !self.has_unrepaired {
            for model in models {
                declared::record_declared(self.access.to(model)).await?;
            }
        }
        Ok(())
    }

    /// Returns the position of the repair. See [`Findings::token`].
    #[must_use]
    pub fn token(&self) -> Option<&CheckToken> {
        self.findings.token()
    }
}

/// The findings and repairs of a [`Repair`]. The report is available as text and, with serde, as JSON.
#[derive(Debug, Clone, Serialize)]
pub struct RepairReport {
    /// The number of checked documents.
    pub documents: u64,
    /// The findings, each with the repair.
    pub steps: Vec<RepairStep>,
}

impl RepairReport {
    /// Returns whether all findings are repaired.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.all(|step| matches!(step.outcome, RepairOutcome::Done | RepairOutcome::NotNeeded))
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        let count = |matches: fn(&RepairOutcome) -> bool| {
            let steps = self.steps.iter();
            steps.filter(|step| matches(&step.outcome)).count()
        };
        write!(
            f,
            "{} documents: {} repaired, {} can be repaired, {} cannot",
            self.documents,
            count(|outcome| matches!(outcome, RepairOutcome::Done | RepairOutcome::NotNeeded)),
            count(|outcome| matches!(outcome, RepairOutcome::Planned)),
            count(|outcome| matches!(outcome, RepairOutcome::Impossible { .. })),
        )
    }
}

/// A finding and the repair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepairStep {
    /// The finding.
    pub finding: Finding,
    /// The repair. `None` if the application must decide.
    pub remedy: Option<Remedy>,
    /// The result of the repair.
    pub outcome: RepairOutcome,
}

/// The way to repair a [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Remedy {
    /// Adds the document to the inverse on the target.
    AddToInverse,
    /// Removes a document without a matching reference from the inverse.
    RemoveFromInverse,
    /// Removes duplicate entries from the inverse.
    RemoveDuplicate,
    /// Fills the copy again.
    FillCopy,
    /// Recomputes the rollup from all children.
    RecomputeRollup,
    /// Recomputes the field.
    RecomputeField,
    /// Assigns the next number of the sequence.
    AssignNumber,
    /// Moves the elements of the overflow array to the right documents and recomputes the count.
    RebuildArray,
    /// Sets a reference without a target to null.
    Nullify,
    /// Removes a reference without a target from the array.
    Pull,
    /// Deletes the document, by the cascade rule of a reference without a target.
    Delete,
}

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum RepairOutcome {
    /// The repair was only reported.
    Planned,
    /// The repair was written.
    Done,
    /// The finding had disappeared when the document was read again.
    NotNeeded,
    /// The application must repair the finding.
    Impossible {
        /// The reason.
        why: String,
    },
}

impl fmt::Display for RepairStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = self.remedy.map(|remedy| match remedy {
            Remedy::AddToInverse => "add the document to the inverse",
            Remedy::RemoveFromInverse => "remove the document from the inverse",
            Remedy::RemoveDuplicate => "remove the duplicate from the inverse",
            Remedy::FillCopy => "fill the copy again",
            Remedy::RecomputeRollup => "recompute the rollup",
            Remedy::RecomputeField => "recompute the field",
            Remedy::AssignNumber => "assign the next number",
            Remedy::RebuildArray => "rebuild the array",
            Remedy::Nullify => "set the reference to null",
            Remedy::Pull => "remove the reference from the array",
            Remedy::Delete => "delete the document",
        });
        let remedy = remedy.unwrap_or_default();
        write!(f, "{}\n  ", self.finding)?;
        match &self.outcome {
            RepairOutcome::Planned => write!(f, "planned: {remedy}"),
            RepairOutcome::Done => write!(f, "done: {remedy}"),
            RepairOutcome::NotNeeded => write!(f, "no longer needed"),
            RepairOutcome::Impossible { why: reason } => write!(f, "not repaired: {reason}"),
        }
    }
}

/// The repair of a finding.
struct RepairAction {
    remedy: Remedy,
    method: RepairMethod,
}

enum RepairMethod {
    Link(DeleteRule, ReferenceRepair),
    RemoveDuplicate(&'static Model, &'static InverseLink, RawBson),
    RecomputeRollup(&'static Model, bson::Bson),
    RebuildArray(&'static Model, &'static OverflowField, bson::Bson),
    DeleteOrphan(&'static Model, &'static OverflowField, bson::Bson),
    FillCopy {
        model: &'static Model,
        document: RawBson,
        path: String,
        source: bson::Bson,
    },
    AssignNumber(&'static Model, &'static SequenceField, RawBson),
    RecomputeField {
        model: &'static Model,
        document: RawBson,
        path: String,
        actual: bson::Bson,
    },
}

impl RepairAction {
    fn new(remedy: Remedy, method: RepairMethod) -> Self {
        Self { remedy, method }
    }

    /// Returns the repair of a finding.
    ///
    /// # Errors
    ///
    /// The reason why the application must repair the finding.
    fn from_finding(access: &Access, finding: &Finding) -> Result<Self, String> {
        let raw =
            |id: &bson::Bson| RawBson::try_from(id.clone()).map_err(|error| error.to_string());
        let (target_model, target) = match &finding.kind {
            FindingKind::Dangling { to, id }
            | FindingKind::OneSided { to, id }
            | FindingKind::DuplicateInverse { to, id } => (*to, raw(id)?),
            FindingKind::Stale { id, .. } => {
                let method = RepairMethod::FillCopy {
                    model: model_of_collection(access, finding.collection)?,
                    document: raw(&finding.id)?,
                    path: finding.path.clone(),
                    source: id.clone(),
                };
                return Ok(Self::new(Remedy::FillCopy, method));
            }
            FindingKind::WrongFlag { .. }
            | FindingKind::TooManyResident { .. }
            | FindingKind::OutOfOrder
            | FindingKind::OutOfSequence { .. } => {
                return Self::rebuild_array(access, finding).ok_or_else(unknown_array_error);
            }
            FindingKind::Orphaned { .. } => {
                let arrays = access.schema_models().iter().flat_map(|model| {
                    let fields = model.overflows.iter();
                    fields.map(move |field| (*model, field))
                });
                let mut owners =
                    arrays.filter(|(_, field)| field.chunks.collection == finding.collection);
                let (model, field) = owners.next().ok_or_else(unknown_array_error)?;
                let method = RepairMethod::DeleteOrphan(model, field, finding.id.clone());
                return Ok(Self::new(Remedy::Delete, method));
            }
            FindingKind::WrongCount { .. } => {
                if let Some(action) = Self::rebuild_array(access, finding) {
                    return Ok(action);
                }
                let model = model_of_collection(access, finding.collection)?;
                let method = RepairMethod::RecomputeRollup(model, finding.id.clone());
                return Ok(Self::new(Remedy::RecomputeRollup, method));
            }
            FindingKind::WrongComputedField { expected: None, .. } => {
                return Err(
                    "change an input of the field, so that the value fits into an int64".to_owned(),
                );
            }
            FindingKind::WrongComputedField { actual, .. } => {
                let method = RepairMethod::RecomputeField {
                    model: model_of_collection(access, finding.collection)?,
                    document: raw(&finding.id)?,
                    path: finding.path.clone(),
                    actual: (**actual).clone(),
                };
                return Ok(Self::new(Remedy::RecomputeField, method));
            }
            FindingKind::Cycle { .. } => {
                return Err(
                    "set the parent of one document of the circle, then repair again".to_owned(),
                );
            }
            FindingKind::MissingNumber => {
                let model = model_of_collection(access, finding.collection)?;
                let mut sequences = model.sequences.iter();
                let sequence = sequences
                    .find(|sequence| sequence.stored == finding.path)
                    .ok_or_else(|| missing_in_schema("sequence"))?;
                let method = RepairMethod::AssignNumber(model, sequence, raw(&finding.id)?);
                return Ok(Self::new(Remedy::AssignNumber, method));
            }
            FindingKind::Blocked { .. } => {
                return Err(
                    "change the rejecting document, then call `db.run_pending()`".to_owned(),
                );
            }
            FindingKind::Unreadable { .. } | FindingKind::OutOfBounds { .. } => {
                return Err("change the document or the model".to_owned());
            }
        };
        let document = raw(&finding.id)?;
        let model = model_of_collection(access, finding.collection)?;
        let field = finding.path.split('.').next().unwrap_or_default();
        let mut inverses = model.inverses.iter();
        if let Some(inverse) = inverses.find(|inverse| inverse.link_field.stored == field) {
            if matches!(finding.kind, FindingKind::DuplicateInverse { .. }) {
                let method = RepairMethod::RemoveDuplicate(model, inverse, document);
                return Ok(Self::new(Remedy::RemoveDuplicate, method));
            }
            let link = inverse
                .find_reference()
                .ok_or_else(|| missing_in_schema("reference"))?;
            let rule = find_delete_rule(access, model_of_collection(access, target_model)?, link)?;
            let (referrer, target) = (target, document);
            let method =
                RepairMethod::Link(rule, ReferenceRepair::SyncInverse { referrer, target });
            return Ok(Self::new(Remedy::RemoveFromInverse, method));
        }
        let mut links = model.links().iter();
        let link = links.find(|link| link.link_field.is_path_of_reference(&finding.path)).ok_or(
            "a reference without `on_delete` has no delete rule: declare `on_delete`, or change the document",
        )?;
        let rule = find_delete_rule(access, model, link)?;
        if matches!(finding.kind, FindingKind::OneSided { .. }) {
            let referrer = document;
            let method =
                RepairMethod::Link(rule, ReferenceRepair::SyncInverse { referrer, target });
            return Ok(Self::new(Remedy::AddToInverse, method));
        }
        let remedy = match link.on_delete {
            OnDelete::Cascade => Remedy::Delete,
            OnDelete::Nullify => Remedy::Nullify,
            OnDelete::Pull => Remedy::Pull,
            OnDelete::Restrict | OnDelete::Keep => {
                return Err("the delete rule does not allow a missing target: insert the target again, or change or delete this document".to_owned());
            }
        };
        let referrer = document;
        let method = RepairMethod::Link(rule, ReferenceRepair::DetachMissing { referrer, target });
        Ok(Self::new(remedy, method))
    }

    /// Returns the repair of an overflow array. `None` if the path is not an overflow array.
    fn rebuild_array(access: &Access, finding: &Finding) -> Option<Self> {
        let model = model_of_collection(access, finding.collection).ok()?;
        let mut fields = model.overflows.iter();
        let field = fields.find(|field| field.stored == finding.path)?;
        let method = RepairMethod::RebuildArray(model, field, finding.id.clone());
        Some(Self::new(Remedy::RebuildArray, method))
    }

    async fn apply_repair(self, access: &Access) -> Result<RepairOutcome> {
        let outcome = match self.method {
            RepairMethod::Link(rule, repair) => repair_reference(access, rule, repair).await,
            RepairMethod::RemoveDuplicate(model, inverse, id) => {
                remove_duplicates(access.to(model), inverse, &id).await
            }
            RepairMethod::RecomputeRollup(model, id) => {
                recompute_parent(access.to(model), &id).await
            }
            RepairMethod::RebuildArray(model, field, id) => {
                repair_array(access.to(model), field, &id).await
            }
            RepairMethod::DeleteOrphan(model, field, id) => {
                delete_orphan(access.to(model), field, &id).await
            }
            RepairMethod::AssignNumber(model, sequence, document) => {
                assign_missing_number(access.to(model), &document, sequence).await
            }
            RepairMethod::FillCopy {
                model,
                document,
                path,
                source,
            } => refill_copy(access.to(model), &document, &path, &source).await,
            RepairMethod::RecomputeField {
                model,
                document,
                path,
                actual,
            } => recompute_fields(access.to(model), &document, &path, &actual).await,
        };
        match outcome {
            Ok(true) => Ok(RepairOutcome::Done),
            Ok(false) => Ok(RepairOutcome::NotNeeded),
            Err(error) if concerns_one_document(&error) => Ok(RepairOutcome::Impossible {
                why: error.to_string(),
            }),
            Err(error) => Err(error),
        }
    }
}

/// Whether an error concerns a single document, so that the repair can continue with the next finding.
fn concerns_one_document(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Dangling
            | ErrorKind::AlreadyLinked
            | ErrorKind::Restricted
            | ErrorKind::TooManyElements
            | ErrorKind::Conflict
            | ErrorKind::Decode
            // The document or a dependent document rejects the write.
            | ErrorKind::DuplicateKey
            | ErrorKind::Invalid
            | ErrorKind::StillPending
    )
}

fn missing_in_schema(item: &str) -> String {
    format!("the schema does not have this {item}: repair with the schema of the check")
}

fn unknown_array_error() -> String {
    missing_in_schema("array")
}

fn model_of_collection(access: &Access, collection: &str) -> Result<&'static Model, String> {
    let mut models = access.schema_models().iter();
    let model = models.find(|model| model.collection == collection);
    model
        .copied()
        .ok_or_else(|| missing_in_schema("collection"))
}

/// Returns the delete rule of a reference.
fn find_delete_rule(
    access: &Access,
    from: &Model,
    link: &ReferenceLink,
) -> Result<DeleteRule, String> {
    let mut rules = rules_targeting(access.to((link.link_field.model)()));
    let rule = rules.find(|rule| {
        rule.model.collection == from.collection
            && rule.link.link_field.field == link.link_field.field
    });
    rule.ok_or_else(|| missing_in_schema("reference"))
}
