//! Diagrams of the models: boxes with the stored fields, and arrows for references, copies and rollups.

use std::fmt::Write;

use odm::schema::{Model, TypeCopies};

use crate::failure::Result;
use crate::output::Output;

pub(crate) fn run(models: &[&Model], svg: bool, output: &mut Output) -> Result<()> {
    let text = match svg {
        true => to_svg(models),
        false => to_mermaid(models),
    };
    output.lines(text)
}

/// An arrow between two models.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Arrow {
    from: &'static str,
    to: &'static str,
    label: String,
    is_many: bool,
    /// Whether the arrow shows derived data, and not a reference.
    is_derived: bool,
}

/// Returns the arrows: from a referrer to its target, from a copy to its source, and from a rollup to its children.
fn arrows(models: &[&Model]) -> Vec<Arrow> {
    let mut arrows = Vec::new();
    for model in models {
        for link in model.links() {
            let field = &link.link_field;
            arrows.push(Arrow {
                from: model.name,
                to: (field.model)().name,
                label: format!("{} ({})", field.stored, link.on_delete.name()),
                is_many: field.steps.iter().any(|step| step.is_array),
                is_derived: false,
            });
        }
        add_copies(model, model.copies, "", &mut arrows);
        for rollup in model.rollups {
            arrows.push(Arrow {
                from: model.name,
                to: (rollup.model)().name,
                label: format!("rollup {}", rollup.stored),
                is_many: true,
                is_derived: true,
            });
        }
    }
    arrows
}

fn add_copies(model: &Model, copies: &TypeCopies, prefix: &str, arrows: &mut Vec<Arrow>) {
    for copy in copies.fields {
        arrows.push(Arrow {
            from: model.name,
            to: (copy.model)().name,
            label: format!("copy {prefix}{} of {}", copy.stored, copy.source_field),
            is_many: false,
            is_derived: true,
        });
    }
    for embedded in copies.embedded {
        let prefix = format!("{prefix}{}.", embedded.stored);
        add_copies(model, embedded.copies, &prefix, arrows);
    }
}

/// Returns an entity relationship diagram of Mermaid.
fn to_mermaid(models: &[&Model]) -> String {
    let mut text = "erDiagram\n".to_owned();
    for model in models {
        let _ = writeln!(text, "    {} {{", model.name);
        for (_, stored) in model.fields {
            let kind = match *stored {
                "_id" => "id",
                name if model.managed.contains(&name) => "managed",
                _ => "field",
            };
            let _ = writeln!(text, "        {kind} {}", identifier(stored));
        }
        let _ = writeln!(text, "    }}");
    }
    for arrow in arrows(models) {
        let line = match (arrow.is_derived, arrow.is_many) {
            (false, false) => "}o--||",
            (false, true) => "}o--o{",
            (true, _) => "}o..||",
        };
        let _ = writeln!(
            text,
            "    {} {line} {} : \"{}\"",
            arrow.from, arrow.to, arrow.label
        );
    }
    text
}

/// Replaces the characters that Mermaid does not accept in the name of a field.
fn identifier(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

const BOX_WIDTH: usize = 220;
const LINE_HEIGHT: usize = 18;
const GAP: usize = 120;
const COLUMNS: usize = 3;

/// The place of a box.
struct Place {
    x: usize,
    y: usize,
    height: usize,
}

/// Returns an SVG image: boxes in rows, and straight arrows between the boxes.
fn to_svg(models: &[&Model]) -> String {
    let mut places = Vec::new();
    let mut y = GAP / 2;
    for row in models.chunks(COLUMNS) {
        let heights = row
            .iter()
            .map(|model| (model.fields.len() + 2) * LINE_HEIGHT);
        let heights: Vec<_> = heights.collect();
        for (column, height) in heights.iter().enumerate() {
            let x = GAP / 2 + column * (BOX_WIDTH + GAP);
            places.push(Place {
                x,
                y,
                height: *height,
            });
        }
        y += heights.into_iter().max().unwrap_or_default() + GAP;
    }
    let width = GAP + COLUMNS * (BOX_WIDTH + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <defs><marker id=\"arrow\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n"
    );
    for (number, arrow) in arrows(models).iter().enumerate() {
        let place = |name: &str| {
            let position = models.iter().position(|model| model.name == name);
            position.and_then(|position| places.get(position))
        };
        if let (Some(from), Some(to)) = (place(arrow.from), place(arrow.to)) {
            write_arrow(&mut svg, arrow, from, to, number);
        }
    }
    for (model, place) in models.iter().zip(&places) {
        write_box(&mut svg, model, place);
    }
    svg.push_str("</svg>\n");
    svg
}

fn write_arrow(svg: &mut String, arrow: &Arrow, from: &Place, to: &Place, number: usize) {
    let dashes = if arrow.is_derived {
        " stroke-dasharray=\"4\""
    } else {
        ""
    };
    // Arrows between the same boxes do not cover each other.
    let shift = (number % 5) * LINE_HEIGHT;
    let (x1, x2) = match from.x.cmp(&to.x) {
        std::cmp::Ordering::Less => (from.x + BOX_WIDTH, to.x),
        std::cmp::Ordering::Greater => (from.x, to.x + BOX_WIDTH),
        std::cmp::Ordering::Equal => (from.x + BOX_WIDTH, to.x + BOX_WIDTH),
    };
    let (y1, y2) = (from.y + from.height / 2 + shift, to.y + LINE_HEIGHT + shift);
    let bend = if x1 == x2 { GAP / 2 } else { 0 };
    let (middle_x, middle_y) = (x1.midpoint(x2) + bend, y1.midpoint(y2));
    let _ = writeln!(
        svg,
        "<path d=\"M{x1},{y1} Q{middle_x},{middle_y} {x2},{y2}\" fill=\"none\" stroke=\"#555\"{dashes} marker-end=\"url(#arrow)\"/>\n\
         <text x=\"{middle_x}\" y=\"{middle_y}\" text-anchor=\"middle\" fill=\"#333\">{}</text>",
        escape(&arrow.label)
    );
}

fn write_box(svg: &mut String, model: &Model, place: &Place) {
    let Place { x, y, height } = place;
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{height}\" fill=\"#fff\" stroke=\"#333\"/>\n\
         <text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text>",
        x + 8,
        y + LINE_HEIGHT,
        escape(model.name)
    );
    for (line, (_, stored)) in model.fields.iter().enumerate() {
        let y = y + (line + 2) * LINE_HEIGHT;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{y}\">{}</text>",
            x + 8,
            escape(stored)
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
