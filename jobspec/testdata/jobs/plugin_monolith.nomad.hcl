job "csi-nfs" {
  type = "system"
  group "plugin" {
    task "plugin" {
      driver = "raw_exec"
      config {
        command = "/opt/csi/nfsplugin"
        args    = ["--endpoint=${CSI_ENDPOINT}", "--nodeid=${node.unique.name}"]
      }
      csi_plugin {
        id             = "nfs"
        type           = "monolith"
        health_timeout = "45s"
      }
      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}
