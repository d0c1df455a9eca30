//! A position in the order of a sort, and what comes behind it.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument};

use super::{Brackets, Sort, filter::Node};
use crate::{Error, ErrorKind, Result, field::Path};

/// The values by which a document is sorted.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if one is an array or of another type that a sort can place but no condition can name.
pub(crate) fn key_of<M>(document: &RawDocument, sorts: &[Sort<M>]) -> Result<Vec<RawBson>> {
    let keys = sorts.iter().map(|sort| {
        let path = sort.path().dotted()?;
        let value = lookup(document, path).unwrap_or(RawBsonRef::Null);
        match Brackets::of(value) {
            Some(Brackets::NULL) => Ok(RawBson::Null),
            Some(_) => Ok(RawBson::from(value)),
            None => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "no page can begin behind a value of the type {:?}: sort by a field of one value",
                    value.element_type()
                ),
            )
            .with_path(path)),
        }
    });
    keys.collect()
}

/// What comes behind the documents with this key in the order; these too, if `including`. None if the key is none of this
/// order.
pub(crate) fn behind<M>(key: &[RawBson], sorts: &[Sort<M>], including: bool) -> Option<Node> {
    if key.len() != sorts.len() {
        return None;
    }
    let mut ways = Vec::new();
    let mut equal: Vec<Node> = Vec::new();
    for (value, sort) in key.iter().zip(sorts) {
        let own = Brackets::of(value.as_raw_bson_ref())?;
        // A document that does not fit its model has any type.
        let among = sort.brackets().or(own);
        for behind in among.behind(sort.path(), sort.direction(), own, value) {
            ways.push(all(equal.iter().cloned().chain([behind]).collect()));
        }
        equal.push(Node::Test(sort.path().clone(), "$eq", value.clone()));
    }
    if including {
        ways.push(all(equal));
    }
    Some(match ways.len() {
        0 => Node::Test(Path::ROOT.then("_id"), "$in", RawArrayBuf::new().into()),
        1 => ways.remove(0),
        _ => Node::Or(ways),
    })
}

/// The fields that hold the values by which a document is sorted: what a projection has to have.
pub(crate) fn read_by<M>(sorts: &[Sort<M>]) -> Result<Vec<String>> {
    let paths = sorts.iter().map(|sort| {
        let path = sort.path().dotted()?;
        // No projection reads one element of an array.
        let mut steps = path.split('.');
        let first = steps.next().unwrap_or_default().to_owned();
        Ok(steps
            .take_while(|step| step.parse::<usize>().is_err())
            .fold(first, |path, step| path + "." + step))
    });
    paths.collect()
}

fn all(mut nodes: Vec<Node>) -> Node {
    match nodes.len() {
        1 => nodes.remove(0),
        _ => Node::And(nodes),
    }
}

fn lookup<'d>(document: &'d RawDocument, path: &str) -> Option<RawBsonRef<'d>> {
    let mut value = RawBsonRef::Document(document);
    for step in path.split('.') {
        value = match value {
            RawBsonRef::Document(document) => document.get(step).ok()??,
            RawBsonRef::Array(array) => array.get(step.parse().ok()?).ok()??,
            _ => return None,
        };
    }
    Some(value)
}
