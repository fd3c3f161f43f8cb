# Each dispatch transcodes one video, whose address is its meta and whose profile is its payload.
job "transcode" {
  type = "batch"

  parameterized {
    payload       = "required"
    meta_required = ["source"]
    meta_optional = ["profile", "notify"]
  }

  group "ffmpeg" {
    reschedule {
      attempts  = 2
      interval  = "1h"
      unlimited = false
    }

    task "transcode" {
      driver = "exec"

      dispatch_payload {
        file = "profile.json"
      }

      config {
        command = "/bin/sh"
        args    = ["local/run.sh", "${NOMAD_META_source}"]
      }

      template {
        destination = "local/run.sh"
        perms       = "0755"
        data        = <<-EOT
          #!/bin/sh
          exec ffmpeg -i "$1" -profile:v "$(cat local/profile.json)" out.mp4
        EOT
      }

      resources {
        cpu        = 4000
        memory     = 1024
        memory_max = 2048
      }
    }
  }
}
