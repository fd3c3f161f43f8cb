job "uploader" {
  group "g" {
    task "uploader" {
      driver = "exec"
      identity {
        env  = true
        file = true
      }
      identity {
        name          = "storage"
        aud           = ["storage.example.com"]
        ttl           = "1h"
        file          = true
        filepath      = "local/storage.jwt"
        change_mode   = "signal"
        change_signal = "SIGUSR1"
      }
      config {
        command = "/usr/local/bin/uploader"
        args    = ["-token-file", "local/storage.jwt"]
      }
    }
  }
}
