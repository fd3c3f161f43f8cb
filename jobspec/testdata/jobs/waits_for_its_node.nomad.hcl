# A database on one volume, which is not moved when its node is away for a while.
job "postgres" {
  group "db" {
    disconnect {
      replace = false
    }
    volume "data" {
      type            = "csi"
      source          = "postgres"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "postgres" {
      driver       = "exec"
      user         = "postgres"
      kill_signal  = "SIGINT"
      kill_timeout = "60s"
      volume_mount {
        volume      = "data"
        destination = "/var/lib/postgresql"
      }
      config {
        command = "/usr/lib/postgresql/15/bin/postgres"
        args    = ["-D", "/var/lib/postgresql/data"]
      }
    }
  }
}
