//! The variables of a command, which its expressions read as `$$name`.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::error::Result;
use crate::expression::{Computation, Environment, check_bindable};
use crate::value;

/// What the expressions of a command see besides documents.
///
/// # Errors
/// A name that no variable can have, and what the expressions of the values fail with.
pub(super) fn environment(variables: &RawDocument) -> Result<Arc<Environment>> {
    value::check(variables)?;
    let mut environment = Environment::default();
    let (none, nothing) = (Arc::new(environment.clone()), RawDocumentBuf::new());
    for (name, value) in value::fields(variables) {
        check_bindable(name)?;
        let value = Computation::parse(value, &none)?;
        environment.set(name, value.of(&nothing)?.into_bson());
    }
    Ok(Arc::new(environment))
}
