//! Mending what a check finds.

use std::{fmt, pin::Pin};

use bson::RawBson;
use serde::Serialize;

use super::{Check, CheckToken, Fault, Finding, Findings, IntoCheckToken, declared};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    document::Document,
    maintain::{
        Mending, Rule, compute_again, copy_again, count_again, list_once, mend, mend_orphan,
        mend_overflow, rules,
    },
    schema::{Contains, InverseLink, Model, OnDelete, OverflowField, OwnLink, Schema},
    scope::AllScopes,
};

/// Mends what a [`Check`] finds; made by [`Database::repair`](crate::Database::repair).
///
/// It says what it would do, and does it if it is told to [`apply`](Self::apply) it. Mended are links of which one side does not know,
/// where the reference is the truth, references that lead nowhere, as their `on_delete` says, copies, counts, sums and the latest, and
/// computed fields, which are made again: also of documents that were there before these were declared, and arrays that overflow. What else there is, the application
/// has to mend: nobody knows what is meant.
///
/// It may run while the application writes: each document is looked at again when it is mended, by a write that does nothing if the
/// document or what it refers to was written to meanwhile.
#[must_use = "nothing is looked at until it is awaited or streamed"]
pub struct Repair<S> {
    check: Check<S>,
    applies: bool,
}

impl<S: Schema> Repair<S> {
    pub(crate) fn new(access: &Access) -> Self {
        Self {
            check: Check::of_operation(access, "repair"),
            applies: false,
        }
    }

    /// Only the documents of this model are looked at; what mends them may be a write to others.
    pub fn only<T: Document>(mut self) -> Self
    where
        S: Contains<T, AllScopes>,
    {
        self.check = self.check.only();
        self
    }

    /// Goes on behind the documents that were looked at before this [token](Repairs::token) was taken: see [`Check::after`].
    pub fn after(mut self, token: impl IntoCheckToken) -> Self {
        self.check = self.check.after(token);
        self
    }

    /// Writes what mends them, instead of only saying it.
    pub fn apply(mut self) -> Self {
        self.applies = true;
        self
    }

    /// What is found and done, one after the other.
    pub fn stream(self) -> Repairs {
        Repairs {
            access: self.check.access.clone(),
            models: self.check.models.iter().map(|check| check.model).collect(),
            leaves: false,
            findings: self.check.stream(),
            applies: self.applies,
        }
    }
}

/// All of it.
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

/// What a [`Repair`] finds and does, one after the other.
#[must_use = "nothing is looked at until `next` is called"]
pub struct Repairs {
    access: Access,
    /// What it looks at.
    models: Vec<&'static Model>,
    /// Whether something derived could not be mended.
    leaves: bool,
    findings: Findings,
    applies: bool,
}

impl Repairs {
    /// The next step; none when everything has been looked at.
    ///
    /// # Errors
    ///
    /// Those of the backend, behind which it does not go on: begin again with [`Repair::after`] the [token](Self::token).
    pub async fn next(&mut self) -> Option<Result<RepairStep>> {
        let finding = match self.findings.next().await {
            Some(Ok(finding)) => finding,
            Some(Err(error)) => return Some(Err(error)),
            None => return self.end().await.err().map(Err),
        };
        let cure = Cure::of(&self.access, &finding);
        let (remedy, outcome) = match cure {
            Err(why) => (None, Ok(RepairOutcome::Impossible { why })),
            Ok(cure) if !self.applies => (Some(cure.remedy), Ok(RepairOutcome::Planned)),
            Ok(cure) => (Some(cure.remedy), cure.apply(&self.access).await),
        };
        let is_derived = matches!(
            finding.fault,
            Fault::Stale { .. } | Fault::Miscounted { .. } | Fault::Miscomputed { .. }
        );
        let is_left = !matches!(outcome, Ok(RepairOutcome::Done | RepairOutcome::NotNeeded));
        self.leaves |= is_derived && is_left;
        Some(outcome.map(|outcome| RepairStep {
            finding,
            remedy,
            outcome,
        }))
    }

    /// All documents of these models are as they are declared now.
    async fn end(&mut self) -> Result<()> {
        let models = std::mem::take(&mut self.models);
        if self.applies && !self.leaves {
            for model in models {
                declared::done(&self.access, model).await?;
            }
        }
        Ok(())
    }

    /// Where this is: see [`Findings::token`].
    #[must_use]
    pub fn token(&self) -> Option<&CheckToken> {
        self.findings.token()
    }
}

/// What a [`Repair`] has found and done; as text, and by serde as JSON.
#[derive(Debug, Clone, Serialize)]
pub struct RepairReport {
    /// How many documents were looked at.
    pub documents: u64,
    /// What was found, and done about it.
    pub steps: Vec<RepairStep>,
}

impl RepairReport {
    /// Whether nothing is left to mend.
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
        let count = |is_it: fn(&RepairOutcome) -> bool| {
            let steps = self.steps.iter();
            steps.filter(|step| is_it(&step.outcome)).count()
        };
        write!(
            f,
            "{} documents: {} mended, {} can be mended, {} cannot",
            self.documents,
            count(|outcome| matches!(outcome, RepairOutcome::Done | RepairOutcome::NotNeeded)),
            count(|outcome| matches!(outcome, RepairOutcome::Planned)),
            count(|outcome| matches!(outcome, RepairOutcome::Impossible { .. })),
        )
    }
}

/// Something that was found, and what is done about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepairStep {
    /// What was found.
    pub finding: Finding,
    /// What mends it; none if nobody but the application knows.
    pub remedy: Option<Remedy>,
    /// What has become of that.
    pub outcome: RepairOutcome,
}

/// What mends a [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Remedy {
    /// The document is listed by the one that it refers to.
    Enter,
    /// A document that does not refer to this one leaves its list.
    Leave,
    /// What is listed more than once is listed once.
    ListOnce,
    /// The copy is taken again.
    CopyAgain,
    /// The documents that refer to it are counted again.
    CountAgain,
    /// The field is computed again.
    ComputeAgain,
    /// The elements of the array are put where they belong, and counted.
    Straighten,
    /// The reference that leads nowhere becomes null.
    Nullify,
    /// The reference that leads nowhere leaves its array.
    Pull,
    /// The document goes as what it refers to has gone.
    Delete,
}

/// What has become of a [`Remedy`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum RepairOutcome {
    /// It was only looked for.
    Planned,
    /// It was written.
    Done,
    /// All was right when it was looked at again.
    NotNeeded,
    /// The application has to mend it.
    Impossible {
        /// Why.
        why: String,
    },
}

impl fmt::Display for RepairStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = self.remedy.map(|remedy| match remedy {
            Remedy::Enter => "the other side lists it",
            Remedy::Leave => "it leaves the list",
            Remedy::ListOnce => "it is listed once",
            Remedy::CopyAgain => "the copy is taken again",
            Remedy::CountAgain => "it is counted again",
            Remedy::ComputeAgain => "the field is computed again",
            Remedy::Straighten => "its elements are put where they belong, and counted",
            Remedy::Nullify => "the reference becomes null",
            Remedy::Pull => "the reference leaves its array",
            Remedy::Delete => "the document is deleted",
        });
        let remedy = remedy.unwrap_or_default();
        write!(f, "{}\n  ", self.finding)?;
        match &self.outcome {
            RepairOutcome::Planned => write!(f, "to be done: {remedy}"),
            RepairOutcome::Done => write!(f, "done: {remedy}"),
            RepairOutcome::NotNeeded => write!(f, "nothing to be done any more"),
            RepairOutcome::Impossible { why } => write!(f, "not mended: {why}"),
        }
    }
}

/// How a finding is mended.
struct Cure {
    remedy: Remedy,
    how: How,
}

enum How {
    Link(Rule, Mending),
    ListOnce(&'static Model, &'static InverseLink, RawBson),
    CountAgain(&'static Model, bson::Bson),
    Straighten(&'static Model, &'static OverflowField, bson::Bson),
    DeleteOrphan(&'static Model, &'static OverflowField, bson::Bson),
    CopyAgain {
        model: &'static Model,
        document: RawBson,
        path: String,
        source: bson::Bson,
    },
    ComputeAgain {
        model: &'static Model,
        document: RawBson,
        path: String,
        holds: bson::Bson,
    },
}

impl Cure {
    /// Or why nobody can.
    fn of(access: &Access, finding: &Finding) -> Result<Self, String> {
        let raw =
            |id: &bson::Bson| RawBson::try_from(id.clone()).map_err(|error| error.to_string());
        let (to, other) = match &finding.fault {
            Fault::Dangling { to, id }
            | Fault::OneSided { to, id }
            | Fault::ListedTwice { to, id } => (*to, raw(id)?),
            Fault::Stale { id, .. } => {
                let how = How::CopyAgain {
                    model: model_on(access, finding.collection)?,
                    document: raw(&finding.id)?,
                    path: finding.path.clone(),
                    source: id.clone(),
                };
                return Ok(Self {
                    remedy: Remedy::CopyAgain,
                    how,
                });
            }
            Fault::Misflagged { .. }
            | Fault::TooManyInside { .. }
            | Fault::OutOfOrder
            | Fault::OutOfSequence { .. } => {
                return Self::straighten(access, finding).ok_or_else(no_array);
            }
            Fault::Orphaned { .. } => {
                let arrays = access.models().iter().flat_map(|model| {
                    let fields = model.overflows.iter();
                    fields.map(move |field| (*model, field))
                });
                let mut own =
                    arrays.filter(|(_, field)| field.extras.collection == finding.collection);
                let (model, field) = own.next().ok_or_else(no_array)?;
                return Ok(Self {
                    remedy: Remedy::Delete,
                    how: How::DeleteOrphan(model, field, finding.id.clone()),
                });
            }
            Fault::Miscounted { .. } => {
                if let Some(cure) = Self::straighten(access, finding) {
                    return Ok(cure);
                }
                let model = model_on(access, finding.collection)?;
                return Ok(Self {
                    remedy: Remedy::CountAgain,
                    how: How::CountAgain(model, finding.id.clone()),
                });
            }
            Fault::Miscomputed { is: None, .. } => {
                return Err("change what it is computed from, so that it has room".to_owned());
            }
            Fault::Miscomputed { holds, .. } => {
                let how = How::ComputeAgain {
                    model: model_on(access, finding.collection)?,
                    document: raw(&finding.id)?,
                    path: finding.path.clone(),
                    holds: (**holds).clone(),
                };
                return Ok(Self {
                    remedy: Remedy::ComputeAgain,
                    how,
                });
            }
            Fault::Blocked { .. } => {
                return Err("let the document accept the write, then run `db.settle()`".to_owned());
            }
            Fault::Unreadable { .. } | Fault::OutOfBounds { .. } => {
                return Err("change the document, or let the model accept it".to_owned());
            }
        };
        let this = raw(&finding.id)?;
        let model = model_on(access, finding.collection)?;
        let field = finding.path.split('.').next().unwrap_or_default();
        let mut inverses = model.inverses.iter();
        if let Some(inverse) = inverses.find(|inverse| inverse.side.stored == field) {
            if matches!(finding.fault, Fault::ListedTwice { .. }) {
                let how = How::ListOnce(model, inverse, this);
                return Ok(Self {
                    remedy: Remedy::ListOnce,
                    how,
                });
            }
            let link = inverse.own().ok_or("the schema has no such link")?;
            let how = How::Link(
                rule(access, model_on(access, to)?, link)?,
                Mending::Agree {
                    owner: other,
                    target: this,
                },
            );
            return Ok(Self {
                remedy: Remedy::Leave,
                how,
            });
        }
        let mut links = model.links().iter();
        let link = links.find(|link| link.side.is_at(&finding.path)).ok_or(
            "a plain reference has no rule for this: say `on_delete`, or change the document",
        )?;
        let rule = rule(access, model, link)?;
        if matches!(finding.fault, Fault::OneSided { .. }) {
            let how = How::Link(
                rule,
                Mending::Agree {
                    owner: this,
                    target: other,
                },
            );
            return Ok(Self {
                remedy: Remedy::Enter,
                how,
            });
        }
        let remedy = match link.on_delete {
            OnDelete::Cascade => Remedy::Delete,
            OnDelete::Nullify => Remedy::Nullify,
            OnDelete::Pull => Remedy::Pull,
            OnDelete::Restrict | OnDelete::Keep => {
                return Err("what it leads to must not have been deleted: insert it again, or change or delete this document".to_owned());
            }
        };
        let how = How::Link(
            rule,
            Mending::Part {
                owner: this,
                gone: other,
            },
        );
        Ok(Self { remedy, how })
    }

    /// What mends an array that overflows; none of another field.
    fn straighten(access: &Access, finding: &Finding) -> Option<Self> {
        let model = model_on(access, finding.collection).ok()?;
        let mut fields = model.overflows.iter();
        let field = fields.find(|field| field.stored == finding.path)?;
        Some(Self {
            remedy: Remedy::Straighten,
            how: How::Straighten(model, field, finding.id.clone()),
        })
    }

    async fn apply(self, access: &Access) -> Result<RepairOutcome> {
        let done = match self.how {
            How::Link(rule, mending) => mend(access, rule, mending).await,
            How::ListOnce(model, inverse, id) => list_once(access, model, inverse, &id).await,
            How::CountAgain(model, id) => count_again(access, model, &id).await,
            How::Straighten(model, field, id) => mend_overflow(access, model, field, &id).await,
            How::DeleteOrphan(model, field, id) => mend_orphan(access, model, field, &id).await,
            How::CopyAgain {
                model,
                document,
                path,
                source,
            } => copy_again(access, model, &document, &path, &source).await,
            How::ComputeAgain {
                model,
                document,
                path,
                holds,
            } => compute_again(access, model, &document, &path, &holds).await,
        };
        match done {
            Ok(true) => Ok(RepairOutcome::Done),
            Ok(false) => Ok(RepairOutcome::NotNeeded),
            Err(error) if is_about_the_document(&error) => Ok(RepairOutcome::Impossible {
                why: error.to_string(),
            }),
            Err(error) => Err(error),
        }
    }
}

/// Whether an error is one of what is to be mended, and others can be.
fn is_about_the_document(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Dangling
            | ErrorKind::AlreadyLinked
            | ErrorKind::Restricted
            | ErrorKind::TooManyElements
            | ErrorKind::Conflict
            | ErrorKind::Decode
            // The document, or a derived document, rejects a write.
            | ErrorKind::DuplicateKey
            | ErrorKind::Invalid
            | ErrorKind::Unsettled
    )
}

fn no_array() -> String {
    "the schema has no such array".to_owned()
}

fn model_on(access: &Access, collection: &str) -> Result<&'static Model, String> {
    let mut models = access.models().iter();
    let model = models.find(|model| model.collection == collection);
    model
        .copied()
        .ok_or_else(|| "the schema has no such collection".to_owned())
}

/// What the schema says of a reference from documents of a model.
fn rule(access: &Access, from: &Model, link: &OwnLink) -> Result<Rule, String> {
    let mut rules = rules(access, (link.side.model)());
    let rule = rules.find(|rule| {
        rule.model.collection == from.collection && rule.link.side.field == link.side.field
    });
    rule.ok_or_else(|| "the schema has no such reference".to_owned())
}
