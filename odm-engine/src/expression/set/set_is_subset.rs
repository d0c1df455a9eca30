//! `$setIsSubset`: whether the second array has all elements of the first.
//!
//! ```text
//! { "$setIsSubset": [[1, 1], [2, 1]] } → true
//! { "$setIsSubset": [[1, 3], [2, 1]] } → false
//! ```

use super::elements::{DistinctElements, require_array};
use crate::collation::ValueOrder;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse_set_is_subset(call: &OperatorCall<'_>) -> Result<Expression> {
    let [set, superset] = call.exact_operands()?;
    let is_no_array = |superset: Value<'_>| superset.as_array().is_none();
    // Like a constant operator, an invalid constant operand fails even without a document.
    if call.names.folds_constants()
        && set.as_constant().is_none()
        && superset.as_constant().is_some_and(is_no_array)
    {
        let message = "the second operand of $setIsSubset must be an array";
        return Ok(Expression::Failing(Error::with_server_code(17311, message)));
    }
    call.ordered_fixed_binary([set, superset], set_is_subset)
}

fn set_is_subset<'v>(order: &ValueOrder, set: Value<'v>, superset: Value<'v>) -> Result<Value<'v>> {
    let set = require_array("$setIsSubset", &set, 17046)?;
    let superset = value::items(require_array("$setIsSubset", &superset, 17042)?);
    let superset = DistinctElements::new(superset, order);
    Ok(value::items(set).all(|item| superset.contains(item)).into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::rawdoc;

    use crate::expression::Computation;

    #[test]
    fn a_constant_that_is_no_array_fails_without_a_document() {
        let code = |superset: bson::RawBson| {
            let call = rawdoc! { "is": { "$setIsSubset": ["$a", superset] } };
            let call = call.get("is").unwrap().unwrap();
            let parsed = Computation::parse(call, &Arc::default());
            parsed.err().and_then(|error| error.code())
        };
        assert_eq!(code(rawdoc! {}.into()), Some(17311));
        assert_eq!(code(bson::RawBson::Null), Some(17311));
        assert_eq!(code("$b".into()), None);
    }
}
