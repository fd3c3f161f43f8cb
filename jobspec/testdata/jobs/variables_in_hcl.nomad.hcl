variable "datacenters" {
  type    = list(string)
  default = ["dc1", "dc2"]
}

locals {
  version = format("%d.%s", 1, "x")
  groups  = { small = 1, large = 3 }
}

# Variables, locals and dynamic blocks.
job "variables-in-hcl" {
  datacenters = [for d in var.datacenters : upper(d)]

  meta {
    version = local.version
    names   = join(",", sort(["b", "a"]))
  }

  dynamic "group" {
    for_each = local.groups
    labels   = [group.key]

    content {
      count = group.value

      task "app" {
        driver = "exec"
        config {
          command = "/bin/app"
          args    = ["--group", group.key, "--env", "${NOMAD_ALLOC_ID}"]
        }
      }
    }
  }
}
