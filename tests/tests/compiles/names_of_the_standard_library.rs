//! The generated code compiles although local items have names of the standard library and of the crate.

#![allow(dead_code, non_camel_case_types)]

struct Option;
struct Some;
struct None;
struct Vec;
struct String;
struct Result;
struct Ok;
struct Box;
enum Never {}
trait Clone {}
trait Default {}
trait Into {}
trait Document {}
trait Stored {}
mod std {}
mod core {}
mod odm {}
mod serde {}

#[derive(::serde::Serialize, ::serde::Deserialize, ::odm::Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 3)]
    #[index]
    sizes: ::std::vec::Vec<i64>,
    note: ::std::option::Option<::std::string::String>,
}

#[derive(::odm::Schema)]
#[schema(models(Part))]
struct Shop;

pub(crate) fn main() {}
