# Affinities and spreads.
job "spreads" {
  affinity {
    attribute = "${node.datacenter}"
    value     = "dc1"
    weight    = 75
  }

  spread {
    attribute = "${node.datacenter}"
    weight    = 60

    target "dc1" {
      percent = 70
    }
    target "dc2" {
      percent = 30
    }
  }

  group "g" {
    count = 4

    spread {
      attribute = "${meta.rack}"
    }

    affinity {
      attribute = "${meta.ssd}"
      operator  = "is_set"
      weight    = -20
    }
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
}
