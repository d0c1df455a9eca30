//! Commands for the operators of a shop, with the models of the shop:
//!
//! ```sh
//! export DATABASE_URL=odm:shop.odm
//! cargo run -p odm-examples --bin shop_admin -- check
//! cargo run -p odm-examples --bin shop_admin -- sync-indexes --dry-run
//! cargo run -p odm-examples --bin shop_admin -- diagram
//! cargo run -p odm-examples --bin shop_admin -- stats shop.odm
//! ```

use std::process::ExitCode;

use odm_examples::shop::{Basket, Maker, Product, Shop};

fn main() -> ExitCode {
    // Without JSON Schemas, `odm_cli::run::<Shop>()` is enough.
    odm_cli::Tool::<Shop>::new()
        .json_schema::<Maker>()
        .json_schema::<Product>()
        .json_schema::<Basket>()
        .run()
}
