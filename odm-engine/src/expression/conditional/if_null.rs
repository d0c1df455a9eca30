//! `$ifNull`: the first operand that is neither null nor missing, else the last operand. Later
//! operands are not evaluated.
//!
//! ```text
//! { "$ifNull": [null, "$$REMOVE", 3, 4] } → 3
//! { "$ifNull": [null, "$$REMOVE"] } → missing
//! ```

use crate::expression::call::{FoldableOperator, OperatorCall};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::{Error, Result};

#[derive(Debug)]
struct IfNull(Vec<Expression>);

pub(super) fn parse_if_null(call: &OperatorCall<'_>) -> Result<Expression> {
    let operands = call.parse_operands()?;
    if operands.len() < 2 {
        let message = format!("$ifNull takes at least 2 operands, not {}", operands.len());
        return Err(Error::with_server_code(1_257_300, message));
    }
    if call.names.folds_constants() {
        return without_constants(call, operands);
    }
    call.fold_constant(IfNull(operands))
}

/// Removes operands that can never be the result: constant nulls before the last operand, and
/// everything after another constant.
fn without_constants(call: &OperatorCall<'_>, operands: Vec<Expression>) -> Result<Expression> {
    let last = operands.len().saturating_sub(1);
    let mut kept = Vec::with_capacity(operands.len());
    for (at, operand) in operands.into_iter().enumerate() {
        let is_nullish = operand.as_constant().map(|constant| constant.is_nullish());
        match is_nullish {
            Some(true) if at < last => continue,
            Some(false) => {
                kept.push(operand);
                break;
            }
            _ => kept.push(operand),
        }
    }
    match kept.len() {
        1 => Ok(kept.remove(0)),
        _ => call.fold_constant(IfNull(kept)),
    }
}

impl FoldableOperator for IfNull {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        self.0.iter()
    }
}

impl ExpressionOperator for IfNull {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let mut last = Value::Missing;
        for operand in &self.0 {
            last = operand.evaluate(scope)?;
            if !last.is_nullish() {
                break;
            }
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::{RawBson, rawdoc};

    use crate::expression::Computation;

    #[test]
    fn constants_decide_without_a_document() {
        let constant = |operands: Vec<RawBson>| {
            let call = rawdoc! { "$ifNull": bson::RawArrayBuf::from_iter(operands) };
            let call = RawBson::from(call);
            let parsed = Computation::parse(call.as_raw_bson_ref(), &Arc::default()).unwrap();
            parsed.constant_value().and_then(|value| value.into_bson())
        };
        let (one, null, path) = (RawBson::from(1), RawBson::Null, RawBson::from("$a"));
        assert_eq!(constant(vec![one.clone(), path.clone()]), Some(one.clone()));
        assert_eq!(
            constant(vec![null.clone(), one.clone(), path.clone()]),
            Some(one.clone())
        );
        assert_eq!(constant(vec![path.clone(), one]), None);
        assert_eq!(constant(vec![null, path]), None);
    }
}
