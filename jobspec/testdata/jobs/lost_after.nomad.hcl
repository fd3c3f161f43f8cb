job "edge-cache" {
  group "cache" {
    count = 2
    disconnect {
      lost_after = "6h"
      reconcile  = "keep_original"
    }
    task "cache" {
      driver = "exec"
      config {
        command = "/usr/local/bin/cache"
      }
    }
  }
  group "agent" {
    disconnect {
      stop_on_client_after = "5m"
    }
    task "agent" {
      driver = "exec"
      config {
        command = "/usr/local/bin/agent"
      }
    }
  }
}
