description = "with accelerators"
