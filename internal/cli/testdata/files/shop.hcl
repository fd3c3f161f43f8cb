name        = "shop"
description = "the shop, by a file"

meta {
  owner = "you"
}

capabilities {
  enabled_task_drivers = ["exec"]
}

node_pool_config {
  default = "gpu"
  denied  = ["test-*"]
}
