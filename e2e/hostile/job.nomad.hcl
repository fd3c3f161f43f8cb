# What a task tries that wants out of its sandbox or more than its share. The host volume "rig" has the program.

variable "user" {
  type        = string
  description = "as whom the tasks run"
}

variable "site" {
  type        = string
  description = "what an attacker could know of the node, as JSON"
}

variable "outside" {
  type        = string
  description = "a directory of the node that is no task's"
}

locals {
  alone = ["lay", "flood", "killall", "memory", "unnamed", "disk", "inodes", "names", "gone", "open",
    "tcp", "udp", "swap", "peek", "ptmx"]
}

job "hostile" {
  id   = "hostile-${var.user}"
  type = "batch"

  group "attempts" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    volume "rig" {
      type   = "host"
      source = "rig"
    }
    task "t" {
      driver = "exec"
      user   = var.user
      config {
        command = "/rig/program"
        args    = ["attempts", var.site]
      }
      volume_mount {
        volume      = "rig"
        destination = "/rig"
        read_only   = true
      }
      resources {
        cpu    = 50
        memory = 256
        pids   = 96
      }
    }
  }

  dynamic "group" {
    for_each = local.alone
    labels   = [group.value]
    content {
      restart {
        attempts = 0
        mode     = "fail"
      }
      reschedule {
        attempts  = 0
        unlimited = false
      }
      ephemeral_disk {
        size = 10
      }
      volume "rig" {
        type   = "host"
        source = "rig"
      }
      task "t" {
        driver       = "exec"
        user         = var.user
        kill_timeout = "1s"
        config {
          command = "/rig/program"
          args    = [group.value]
        }
        logs {
          max_files     = 2
          max_file_size = 1
        }
        volume_mount {
          volume      = "rig"
          destination = "/rig"
          read_only   = true
        }
        resources {
          cpu    = 50
          memory = 48
        }
      }
    }
  }

  # A template is written where the first run of the task has laid a link.
  group "template" {
    restart {
      attempts = 1
      delay    = "1s"
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = "exec"
      user   = var.user
      template {
        destination = "local/out/file"
        data        = "written by the agent"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "mv /local/out /local/was && ln -s '${var.outside}' /local/out && exit 1"]
      }
      resources {
        cpu    = 50
        memory = 48
      }
    }
  }
}
