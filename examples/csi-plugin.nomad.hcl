# A storage plugin of somebody else, run as a job on every node. The same file works with driver "raw_exec" and "exec":
# Berth tells the plugin where to listen, and shows it the directories that it mounts into.
job "my-storage" {
  type = "system"

  group "plugin" {
    task "plugin" {
      driver = "raw_exec"

      config {
        command = "/usr/local/bin/my-csi-plugin"
        args    = ["--endpoint=${CSI_ENDPOINT}", "--nodeid=${node.unique.id}"]
      }

      csi_plugin {
        id                     = "my-storage" # plugin_id in volume files
        type                   = "monolith"   # or node, or controller
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}
