# Identities that a task shows.
job "identities" {
  group "g" {
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }

      identity {
        env  = true
        file = true
      }

      identity {
        name          = "vault"
        aud           = ["vault.example", "other.example"]
        ttl           = "1h"
        file          = true
        filepath      = "local/vault.jwt"
        change_mode   = "signal"
        change_signal = "SIGHUP"

        extra_claims {
          unique_id = "${job.region}:${job.namespace}:${job.id}"
        }
      }
    }
  }
}
