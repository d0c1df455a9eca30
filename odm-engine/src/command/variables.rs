//! Variables of a command, which expressions read as `$$name`.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::collation::{Collation, ValueOrder};
use crate::error::Result;
use crate::expression::{Computation, Environment, check_bindable};
use crate::value;

/// Returns the environment of a command's expressions: its variables, and the order of values.
///
/// # Errors
/// An invalid variable name, a value that depends on documents, an error in the expression of a value.
pub(super) fn parse_environment(
    variables: &RawDocument,
    collation: Option<&Collation>,
) -> Result<Arc<Environment>> {
    value::check_document(variables)?;
    let order = ValueOrder::new(collation)?;
    let mut environment = Arc::new(Environment::default().with_order(order));
    let empty_document = RawDocumentBuf::new();
    for (name, value) in value::fields(variables) {
        check_bindable(name)?;
        // A value can use the earlier variables.
        let computation = Computation::parse_without_document(value, &environment)?;
        let value = computation.evaluate(&empty_document)?.into_bson();
        Arc::make_mut(&mut environment).set_variable(name, value);
    }
    Ok(environment)
}
