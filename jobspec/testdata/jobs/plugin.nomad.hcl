# A CSI plugin as a system job, with both roles in one task.
job "local-csi" {
  type = "system"

  group "plugin" {
    task "plugin" {
      driver = "raw_exec"

      config {
        command = "/usr/local/bin/csi-plugin"
        args    = ["--endpoint=${CSI_ENDPOINT}", "--nodeid=${node.unique.id}", "--name=${meta.name}"]
      }

      csi_plugin {
        id                     = "local"
        type                   = "monolith"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
        health_timeout         = "45s"
        controller_scope       = "node"
        max_parallel           = 50
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
