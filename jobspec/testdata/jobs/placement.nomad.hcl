# Everything that says where and when.
job "placement" {
  id          = "team/placement"
  name        = "placement"
  region      = "global"
  namespace   = "default"
  priority    = 70
  datacenters = ["dc1", "dc2-*"]

  meta = {
    owner = "storage"
    level = 3
  }

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  constraint {
    attribute = "${attr.kernel.version}"
    version   = ">= 5.10"
  }
  constraint {
    distinct_hosts = true
  }

  affinity {
    attribute = "${meta.rack}"
    regexp    = "^r[0-9]+$"
    weight    = -30
  }

  spread {
    attribute = "${node.datacenter}"
    weight    = 80
    target "dc1" {
      percent = 70
    }
    target {
      value   = "dc2-a"
      percent = 30
    }
  }

  update {
    max_parallel     = 2
    min_healthy_time = "15s"
    health_check     = "task_states"
  }

  reschedule {
    delay          = "30s"
    delay_function = "fibonacci"
    max_delay      = "10m"
    unlimited      = true
  }

  group "web" {
    count = 3
    constraint {
      distinct_property = "${meta.rack}"
      value             = "2"
    }
    constraint {
      attribute        = "${attr.os.signals}"
      set_contains_all = "SIGHUP,SIGTERM"
    }
    update {
      max_parallel = 1
    }
    task "main" {
      driver = "raw_exec"
      leader = true
      config {
        command = "/bin/sleep"
        args    = ["3600"]
      }
      constraint {
        attribute = "${meta.ssd}"
        operator  = "is_set"
      }
      resources {
        cpu = 20
      }
    }
  }
}
