job "prefers" {
  affinity {
    attribute = "${node.datacenter}"
    value     = "dc1"
    weight    = 70
  }
  group "g" {
    count = 2
    affinity {
      attribute = "${attr.driver.exec}"
      value     = "1"
    }
    spread {
      attribute = "${node.unique.id}"
    }
    task "t" {
      driver = "exec"
      affinity {
        attribute = "${meta.ssd}"
        value     = "false"
        weight    = -50
      }
      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }
    }
  }
}
