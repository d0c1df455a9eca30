//! Caseless texts in updates: an update of a text with an index that ignores case also sets the caseless text.

use bson::RawDocumentBuf;

use super::{
    footprint::{Operator, parsed_changes, put_operator, update_touches},
    metadata_update::{parse_document, to_raw_document},
};
use crate::{
    Error, ErrorKind, Result, error, metadata::caseless_path, model::caseless::value_without_case,
    schema::Model,
};

/// Adds the caseless texts of the written texts to an update.
///
/// # Errors
///
/// [`Unsupported`](ErrorKind::Unsupported) for an operator with a result that only the database knows.
pub(super) fn add_caseless_changes(model: &Model, update: &mut RawDocumentBuf) -> Result<()> {
    let mut fields = model.caseless.iter();
    if !fields.any(|field| update_touches(update, field)) {
        return Ok(());
    }
    let parsed = parse_document(update)?;
    let mut changed = parsed.clone();
    for field in model.caseless {
        for change in parsed_changes(&parsed).filter(|change| change.touches(field)) {
            let path = caseless_path(field);
            match change.operator {
                Operator::Set => match value_without_case(Some(change.operand)) {
                    Some(text) => put_operator(&mut changed, change.operator_name, &path, text),
                    None => put_operator(&mut changed, "$unset", &path, ""),
                },
                Operator::Unset => put_operator(&mut changed, "$unset", &path, ""),
                Operator::SetOnInsert
                | Operator::Rename
                | Operator::Inc
                | Operator::Mul
                | Operator::Min
                | Operator::Max
                | Operator::Bit
                | Operator::CurrentDate
                | Operator::Push
                | Operator::AddToSet
                | Operator::Pull
                | Operator::PullAll
                | Operator::Pop
                | Operator::Unknown => {
                    let message = format!(
                        "`{}` cannot change a text with an index that ignores case, and nothing was written: use `set`, or `modify`",
                        change.operator_name
                    );
                    let error = Error::new(ErrorKind::Unsupported, message).with_path(*field);
                    return Err(error::naming_model(model)(error));
                }
            }
        }
    }
    *update = to_raw_document(&changed)?;
    Ok(())
}
