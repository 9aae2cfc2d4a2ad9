use super::*;
use crate::compare::machine_code::{Instructions, Resources};

fn side(name: &str, compiler: &'static str, registers: u32, total: u32) -> Side {
    Side {
        entry: Entry::of("tree", name).unwrap(),
        compiler,
        arch: "sm_90".to_owned(),
        tools: "ptxas 1.2".to_owned(),
        code: MachineCode {
            resources: Resources { registers, ..Resources::default() },
            instructions: Instructions { total, ..Instructions::default() },
        },
        executed: None,
    }
}

#[test]
fn entries_are_named_by_variant_operation_and_type() {
    let sum = Entry::of("tree", "tree_sumsq_f64").unwrap();
    assert_eq!((sum.variant, sum.op, sum.dtype), ("tree", Some(Op::SumOfSquares), Dtype::F64));
    let copy = Entry::of("copy_strided", "copy_strided_f32").unwrap();
    assert_eq!((copy.op, copy.dtype), (None, Dtype::F32));
    let bulk = Entry::of("reducer", "reducer_argmin_bf16_bulk").unwrap();
    assert_eq!(
        (bulk.op, bulk.dtype, bulk.kernel.as_deref()),
        (Some(Op::ArgMin), Dtype::Bf16, Some("bulk"))
    );
    let counted = Entry::of("reducer", "reducer_counted_max_u8_grid").unwrap();
    assert_eq!(
        (counted.op, counted.dtype, counted.kernel.as_deref()),
        (Some(Op::Max), Dtype::U8, Some("counted"))
    );
    let rows = Entry::of("reducer", "reducer_rows_min_i8_warp").unwrap();
    assert_eq!(
        (rows.op, rows.dtype, rows.kernel.as_deref()),
        (Some(Op::Min), Dtype::I8, Some("rows, warp"))
    );
    for other in [
        "reducer_sum_f32",
        "reducer_sum_f32_",
        "reducer_sum_f32_tree",
        "reducer_bulk",
        "reducer_sum_f32_warp",
        "reducer_counted_sum_f32_bulk",
        "reducer_rows_sum_f32_bulk",
    ] {
        assert_eq!(Entry::of("reducer", other), None, "{other}");
    }
    for other in ["tree_sum", "tree", "tree_fast_sum_f32", "treesum_f32", "tree_sum_f32_", "f32"] {
        assert_eq!(Entry::of("tree", other), None, "{other}");
    }
}

#[test]
fn a_row_is_marked_for_over_ten_percent_more() {
    let marks = |rust: (u32, u32), twin: (u32, u32)| {
        let rust = side("tree_sum_f32", "rust-llvm", rust.0, rust.1);
        let twin = side("tree_sum_f32", TWIN, twin.0, twin.1);
        Row { rust: &rust, twin: &twin }.marks()
    };
    assert!(marks((22, 110), (20, 100)).is_empty());
    assert_eq!(marks((23, 110), (20, 100)), ["registers (allocated alike)"]);
    assert_eq!(marks((25, 110), (20, 100)), ["registers"]);
    assert_eq!(marks((20, 111), (20, 100)), ["instructions"]);
    assert_eq!(marks((40, 200), (20, 100)), ["registers", "instructions"]);
    assert!(marks((1, 1), (20, 100)).is_empty());
}

#[test]
fn rust_entries_are_paired_with_their_twins() {
    let sides = [
        side("tree_sum_f32", "rust-llvm", 10, 50),
        side("tree_sum_f32", "rust-nvvm", 12, 60),
        side("tree_sum_f32", TWIN, 10, 55),
        side("tree_max_f32", "rust-llvm", 10, 50),
        side("tree_min_f32", TWIN, 10, 50),
    ];
    let rows = rows(&sides);
    let shown: Vec<_> =
        rows.iter().map(|row| (row.rust.compiler, row.twin.code.instructions.total)).collect();
    assert_eq!(shown, [("rust-llvm", 55), ("rust-nvvm", 55)]);
    assert_eq!(rows[1].executed(), None);
    assert_eq!(
        missing(&sides),
        [
            "tree: cuda-c lacks 1 entries",
            "tree: rust-llvm lacks 1 entries",
            "tree: rust-nvvm lacks 2 entries"
        ]
    );
}

#[test]
fn without_a_twin_the_code_generators_are_paired() {
    let reducer = |compiler, total| Side {
        entry: Entry::of("reducer", "reducer_sum_f32_grid").unwrap(),
        ..side("tree_sum_f32", compiler, 10, total)
    };
    let both = [reducer("rust-llvm", 50), reducer("rust-nvvm", 60)];
    let rows = rows(&both);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].rust.compiler, rows[0].twin.compiler), ("rust-nvvm", "rust-llvm"));
    assert_eq!(rows[0].marks(), ["instructions"]);
    let text = table::table(&rows).to_string();
    assert!(text.contains("reducer grid") && text.contains("60 / 50"), "{text}");
    assert_eq!(missing(&both), [""; 0]);
    let json = serde_json::to_value(&both[0]).unwrap();
    assert_eq!((&json["variant"], &json["kernel"]), (&"reducer".into(), &"grid".into()));
}

#[test]
fn equal_values_are_shown_once() {
    let (rust, twin) = (side("tree_sum_f32", "rust-llvm", 12, 60), side("tree_sum_f32", TWIN, 12, 50));
    let text = table::table(&[Row { rust: &rust, twin: &twin }]).to_string();
    let line = text.lines().find(|line| line.contains("tree")).unwrap();
    let cells: Vec<&str> = line.split(['│', '┆']).map(str::trim).collect();
    assert_eq!(&cells[1..10], ["tree", "f32", "sum", "llvm", TWIN, "12", "1.00", "60 / 50", "1.20"]);
    assert_eq!(cells[cells.len() - 2], "instructions");
}

#[test]
fn json_line_has_all_fields() {
    let executed = Executed { n: 4, block: 256, grid: 1, warp_instructions: 99 };
    let side = Side { executed: Some(executed), ..side("tree_sum_f32", "rust-llvm", 12, 60) };
    let json = serde_json::to_value(&side).unwrap();
    assert_eq!(
        [
            &json["entry"],
            &json["variant"],
            &json["op"],
            &json["dtype"],
            &json["compiler"],
            &json["arch"]
        ],
        ["tree_sum_f32", "tree", "sum", "f32", "rust-llvm", "sm_90"]
    );
    assert_eq!(json["resources"]["registers"], 12);
    assert_eq!(json["instructions"]["total"], 60);
    assert_eq!(json["executed"]["warp_instructions"], 99);
}
