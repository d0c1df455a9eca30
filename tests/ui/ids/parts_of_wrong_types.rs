//! The parts of an id have fixed types.
#[path = "../banks.rs"]
mod banks;

use banks::*;

fn a_number_for_a_user() {
    let _ = Payment::id_for(7, 1);
}

fn a_text_for_a_number(user: &User) {
    let _ = Payment::id_for(user, "1");
}

fn a_part_too_few(user: &User) {
    let _ = Payment::id_for(user);
}

fn parts_of_another_model(user: &User) {
    let _ = Payment::parts_of(user);
}

fn main() {}
