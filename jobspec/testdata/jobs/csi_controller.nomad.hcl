# Controllers and nodes of a CSI plugin.
job "csi-controller" {
  group "controller" {
    task "plugin" {
      driver = "exec"
      config {
        command = "/bin/csi"
      }

      csi_plugin {
        id             = "cloud"
        type           = "controller"
        health_timeout = "1m"
      }
    }
  }

  group "nodes" {
    count = 2

    task "plugin" {
      driver = "exec"
      config {
        command = "/bin/csi"
      }

      csi_plugin {
        id                     = "cloud"
        type                   = "node"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/var/csi"
      }
    }
  }
}
