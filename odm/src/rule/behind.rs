//! What a rule says of an update's outcome.

use bson::{RawDocument, RawDocumentBuf};

use super::{broken_rules, refuse};
use crate::{
    Error, ErrorKind, Result, decode,
    document::Document,
    error,
    schema::{Model, OverflowField},
};

/// The places of which only the outcome of an update tells whether they meet their rules.
#[derive(Debug, Clone)]
pub(crate) struct Behind {
    model: &'static Model,
    paths: Vec<String>,
    /// Whether the rules of other places depend on them.
    entangled: bool,
    check_one: fn(&Self, &RawDocument) -> Result<()>,
}

impl Behind {
    pub(super) fn of<T: Document>() -> Self {
        Self {
            model: &T::MODEL,
            paths: Vec::new(),
            entangled: false,
            check_one: Self::check_one::<T>,
        }
    }

    pub(super) fn add(&mut self, paths: Vec<String>, entangled: bool) {
        self.paths.extend(paths);
        self.entangled |= entangled;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The arrays of whose elements some may be elsewhere, and are to be looked at there.
    pub(crate) fn elements(&self) -> impl Iterator<Item = &'static OverflowField> {
        let fields = self.model.overflows.iter();
        fields.filter(|field| self.paths.iter().any(|path| field.holds(path)))
    }

    /// Checks what the update has made of the documents.
    ///
    /// What was wrong before, at other places, is not its fault.
    ///
    /// # Errors
    ///
    /// [`Validation`](ErrorKind::Validation) for the first document in which something is wrong now.
    pub(crate) fn check(&self, documents: &[RawDocumentBuf]) -> Result<()> {
        let mut documents = documents.iter();
        documents.try_for_each(|raw| (self.check_one)(self, raw))
    }

    fn check_one<T: Document>(&self, raw: &RawDocument) -> Result<()> {
        let Some(rules) = T::RULES else {
            return Ok(());
        };
        let document = T::from_stored(raw)?;
        let mut broken = broken_rules(rules, &document);
        broken.retain(|(path, _)| self.entangled || self.concerns(path));
        if broken.is_empty() {
            return Ok(());
        }
        let error = error::of(self.model)(refuse(broken));
        Err(match decode::id(raw).map(bson::Bson::try_from) {
            Some(Ok(id)) => error.with_id(id),
            _ => error,
        })
    }

    /// Whether one of the places is at the path, inside of what is there, or around it.
    fn concerns(&self, path: &str) -> bool {
        self.paths.iter().any(|own| {
            own.split('.')
                .zip(path.split('.'))
                .all(|(own, name)| own == name || own.starts_with('$') || name.is_empty())
        })
    }

    /// The error where no transaction can take the update back.
    pub(crate) fn unsupported(&self) -> Error {
        let message = "whether this update keeps to the rules of the model shows only in its outcome, and without transactions, \
                       as on this standalone server, it could not be taken back: use `set`, or `modify`, which checks before it writes";
        let error = error::of(self.model)(Error::new(ErrorKind::Unsupported, message));
        match self.paths.first() {
            Some(path) => error.with_path(path.clone()),
            None => error,
        }
    }
}
