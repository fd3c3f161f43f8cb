# Whole cores of one memory node, and devices.
job "training" {
  type = "batch"
  group "train" {
    network {
      mode = "cni/fast"
      cni {
        args = {
          IP = "10.1.0.7"
        }
      }
    }
    task "train" {
      driver = "exec"
      config {
        command = "/usr/local/bin/train"
      }
      resources {
        cores  = 2
        memory = 512
        numa {
          affinity = "prefer"
        }
        device "nvidia/gpu" {
          count = 2
          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "2 GiB"
          }
          affinity {
            attribute = "${device.model}"
            value     = "Tesla K80"
            weight    = 75
          }
        }
      }
    }
  }
}
