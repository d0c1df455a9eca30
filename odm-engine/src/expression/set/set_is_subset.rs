//! `$setIsSubset`: whether another array has all elements of an array.
//!
//! ```text
//! { "$setIsSubset": [[1, 1], [2, 1]] } → true
//! { "$setIsSubset": [[1, 3], [2, 1]] } → false
//! ```

use super::elements::{Elements, array};
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let [set, of] = call.exactly()?;
    let is_no_array = |of: Value<'_>| of.array().is_none();
    // Like a constant operator, a constant operand fails even without a document.
    if call.names.folds() && set.constant().is_none() && of.constant().is_some_and(is_no_array) {
        let message = "the second operand of $setIsSubset is an array";
        return Ok(Expression::Failing(Error::server(17311, message)));
    }
    call.function([set, of], set_is_subset)
}

fn set_is_subset<'v>([set, of]: [Value<'v>; 2]) -> Result<Value<'v>> {
    let set = array("$setIsSubset", &set, 17046)?;
    let of: Elements<'_> = value::items(array("$setIsSubset", &of, 17042)?).collect();
    Ok(value::items(set).all(|item| of.contains(item)).into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::rawdoc;

    use crate::expression::Computation;

    #[test]
    fn a_constant_that_is_no_array_fails_without_a_document() {
        let code = |of: bson::RawBson| {
            let call = rawdoc! { "is": { "$setIsSubset": ["$a", of] } };
            let call = call.get("is").unwrap().unwrap();
            let parsed = Computation::parse(call, &Arc::default());
            parsed.err().and_then(|error| error.code())
        };
        assert_eq!(code(rawdoc! {}.into()), Some(17311));
        assert_eq!(code(bson::RawBson::Null), Some(17311));
        assert_eq!(code("$b".into()), None);
    }
}
