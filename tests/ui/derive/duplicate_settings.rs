//! Settings that occur twice are errors.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", version, timestamps, soft_delete, hooks)]
#[document(crate = odm, crate = odm, collection = "pieces", version, timestamps, soft_delete, hooks, insert_struct, insert_struct)]
#[document(schema_version = 2, schema_version = 3, upgrade = upgraded, upgrade = renamed)]
#[document(id = "a/{name}", id = "b/{name}", scope = name, scope = name, shard_key(name), shard_key(name))]
struct Part {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    version: i64,
    created_at: DateTime,
    updated_at: DateTime,
    deleted_at: Option<DateTime>,
}

impl odm::Hooks for Part {
    type Schema = Parts;
}

#[derive(Schema)]
#[schema(models(Part))]
struct Parts;

#[derive(Serialize, Deserialize, Embedded, garde::Validate)]
#[embedded(validate, validate)]
struct Size {
    #[garde(range(min = 1))]
    width: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape, variant_of = Shape, timestamps(created = at, created = at))]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
    at: DateTime,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "arrays", index(id, name; unique, unique))]
struct Arrays {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 3, max = 4)]
    bounded: Vec<i64>,
    #[embed(unbounded, unbounded)]
    unbounded: Vec<i64>,
    #[index(sparse, sparse)]
    sparse: i64,
    #[index(descending, descending)]
    descending: i64,
    #[index(name = "a", name = "b")]
    name: i64,
    #[index(partial = |m| m.name().gt(3), partial = |m| m.name().gt(4))]
    partial: i64,
    #[index(expire_after_seconds = 1, expire_after_seconds = 2)]
    expires: DateTime,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "references")]
struct References {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = keep, on_delete = cascade)]
    on_delete: Ref<Arrays>,
    #[reference(exists, exists)]
    exists: Ref<Arrays>,
    #[reference(max = 3, max = 4)]
    max: Vec<Ref<Arrays>>,
    #[reference(inverse = one, inverse = other)]
    inverse: Ref<Arrays>,
    #[reference(inverse_of = one, inverse_of = other)]
    inverse_of: Option<Ref<Arrays>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "derived")]
struct Derived {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    part: Ref<Arrays>,
    #[denormalize(from = part.name, from = part.sparse)]
    from: i64,
    #[denormalize(from = part.name, sync, sync)]
    sync: i64,
    #[denormalize(from = part.name, on_delete = keep, on_delete = clear)]
    on_delete: i64,
    #[snapshot(from = part.name, from = part.sparse)]
    taken: i64,
    #[snapshot(from = part.name, origin, origin)]
    origin: i64,
    #[computed(id)]
    #[computed(id + 1)]
    computed: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "counts")]
struct Counts {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = References::exists, of = References::inverse)]
    count: i64,
    #[sum(of = References::exists, value = id, value = id)]
    sum: i64,
    #[latest(3, of = References::exists, by = id, by = id)]
    by: Vec<Excerpt>,
    #[latest(3, 4, of = References::exists, by = id)]
    latest: Vec<Excerpt>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "overflows")]
struct Overflows {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 3, into = "a", after = 4))]
    after: Overflow<i64>,
    #[embed(overflow(after = 3, into = "b", into = "c"))]
    into: Overflow<i64>,
    #[embed(overflow(after = 3, into = "d", owner = "a", owner = "b"))]
    owner: Overflow<i64>,
    #[embed(overflow(after = 3, into = "e", seq = "a", seq = "b"))]
    seq: Overflow<i64>,
    #[embed(overflow(after = 3, into = "f", elements = "a", elements = "b"))]
    elements: Overflow<i64>,
    #[embed(overflow(after = 3, into = "g", flag = "a", flag = "b"))]
    flag: Overflow<i64>,
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(of = References, of = References, insert_struct, insert_struct)]
struct Excerpt {
    id: i64,
}

#[derive(Deserialize, Projection)]
#[projection(of = References, of = References)]
struct Some {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
