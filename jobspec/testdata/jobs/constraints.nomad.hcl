# Constraints of every kind.
job "constraints" {
  datacenters = ["dc1", "dc2"]
  node_pool   = "fast"

  constraint {
    attribute = "${attr.cpu.arch}"
    operator  = "set_contains_any"
    value     = "amd64,arm64"
  }
  constraint {
    operator = "distinct_hosts"
    value    = "true"
  }
  constraint {
    attribute = "${meta.rack}"
    operator  = "distinct_property"
    value     = "2"
  }
  constraint {
    attribute = "${attr.os.version}"
    operator  = "version"
    value     = ">= 12, < 14"
  }
  constraint {
    attribute = "${node.unique.name}"
    operator  = "regexp"
    value     = "^n[0-9]+$"
  }
  constraint {
    attribute = "${meta.ssd}"
    operator  = "is_set"
  }

  group "g" {
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
}
