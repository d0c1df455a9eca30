//! Values of a wrong kind in settings.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = parts, version = "rev", soft_delete = 3, timestamps = created, hooks = true, schema_version = "2")]
#[document(upgrade = "upgraded", id = made, scope, shard_key = id, index = "id")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[embed = 3]
    named: Vec<i64>,
    #[embed(max)]
    alone: Vec<i64>,
    #[embed(max = MANY)]
    constant: Vec<i64>,
    #[embed(max = 3 + 4)]
    added: Vec<i64>,
    #[embed(max = -1)]
    negative: Vec<i64>,
    #[embed(unbounded = true)]
    unbounded: Vec<i64>,
    #[embed(overflow(after = "3", into = "more"))]
    overflows: Overflow<i64>,
    #[embed(overflow(after = 3, into = more))]
    into: Overflow<i64>,
    #[index(name = by_id)]
    index: i64,
    #[index(unique = true)]
    unique: i64,
    #[index(expire_after_seconds = "3")]
    expires: DateTime,
    #[index(partial = "name")]
    partial: i64,
    #[index("unique")]
    text: i64,
    #[index = "unique"]
    named_index: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection "tasks", schema_version = 5000000000)]
#[document(timestamps(created), index(id unique), variant_of = "Shape")]
#[document]
#[document = "tasks"]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = "cascade")]
    owner: Ref<Part>,
    #[reference(on_delete)]
    maker: Ref<Part>,
    #[reference(inverse = "tasks")]
    helper: Ref<Part>,
    #[reference(inverse_of = 3)]
    helped: Option<Ref<Part>>,
    #[reference(exists = true)]
    exists: Ref<Part>,
    #[denormalize(from = "owner.index")]
    copied: i64,
    #[denormalize(from = owner.index, sync = true)]
    in_step: i64,
    #[denormalize(from = owner.index, on_delete = "clear")]
    cleared: i64,
    #[snapshot(from = owner.index, origin = true)]
    taken: i64,
    #[snapshot = 3]
    said: i64,
    #[count = 3]
    nothing: i64,
    #[count("Part::owner")]
    text: i64,
    #[count(of = "Part::owner")]
    counted: i64,
    #[sum(of = Part::owner, value = 3)]
    summed: i64,
    #[count(of = Part::owner, when = is_shown)]
    when: i64,
    #[count(of = Part::owner, when(is_shown))]
    shown: i64,
    #[latest("3", of = Part::owner, by = id)]
    latest: Vec<i64>,
    #[latest(3, of = Part::owner, by)]
    by: Vec<i64>,
}

#[derive(Schema)]
#[schema(models = Part)]
struct Office;

#[derive(Deserialize, Projection)]
#[projection(of = "Part")]
struct Id {
    id: i64,
}

fn main() {}
