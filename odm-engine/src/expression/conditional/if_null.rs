//! `$ifNull`: the first operand that is neither null nor missing, else the last one. Those behind it
//! are not computed.
//!
//! ```text
//! { "$ifNull": [null, "$$REMOVE", 3, 4] } → 3
//! { "$ifNull": [null, "$$REMOVE"] } → missing
//! ```

use crate::expression::call::{Call, Operands};
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result};

#[derive(Debug)]
struct IfNull(Vec<Expression>);

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let operands = call.operands()?;
    if operands.len() < 2 {
        let message = format!("$ifNull takes at least 2 operands, not {}", operands.len());
        return Err(Error::server(1_257_300, message));
    }
    if call.names.folds() {
        return without_constants(call, operands);
    }
    call.fold(IfNull(operands))
}

/// A constant null never is the answer unless it comes last, and what is behind another constant
/// never is.
fn without_constants(call: &Call<'_>, operands: Vec<Expression>) -> Result<Expression> {
    let last = operands.len().saturating_sub(1);
    let mut kept = Vec::with_capacity(operands.len());
    for (at, operand) in operands.into_iter().enumerate() {
        let is_nullish = operand.constant().map(|constant| constant.is_nullish());
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
        _ => call.fold(IfNull(kept)),
    }
}

impl Operands for IfNull {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        self.0.iter()
    }
}

impl Operator for IfNull {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
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
            parsed.constant().and_then(|value| value.into_bson())
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
