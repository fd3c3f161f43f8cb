job "choosy" {
  datacenters = ["*"]
  constraint {
    attribute = "${attr.cpu.arch}"
    operator  = "set_contains_any"
    value     = "amd64,arm64"
  }
  constraint {
    attribute = "${attr.kernel.version}"
    operator  = "version"
    value     = ">= 5.10, < 7.0"
  }
  constraint {
    operator = "distinct_hosts"
    value    = "true"
  }
  group "g" {
    count = 3
    constraint {
      attribute = "${meta.rack}"
      operator  = "is_set"
    }
    constraint {
      attribute = "${meta.rack}"
      operator  = "distinct_property"
      value     = "1"
    }
    task "t" {
      driver = "exec"
      constraint {
        attribute = "${node.class}"
        operator  = "!="
        value     = "small"
      }
      constraint {
        attribute = "${attr.unique.hostname}"
        operator  = "regexp"
        value     = "^db-[0-9]+$"
      }
      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }
    }
  }
}
