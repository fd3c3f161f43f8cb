node_pool "gpu" {
  description = "with accelerators"

  meta {
    owner = "me"
  }
}
