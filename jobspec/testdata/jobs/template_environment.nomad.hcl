job "worker" {
  group "worker" {
    count = 3
    task "worker" {
      driver = "exec"
      config {
        command = "/usr/local/bin/worker"
      }
      template {
        destination = "secrets/worker.env"
        env         = true
        splay       = "30s"
        data        = <<-EOT
          QUEUE=jobs-{{ env "NOMAD_ALLOC_INDEX" }}
          LOG_LEVEL=info
        EOT
      }
    }
  }
}
