# Environment and metadata.
job "environment" {
  meta {
    owner = "data"
  }

  group "g" {
    meta {
      tier = "2"
    }

    task "app" {
      driver = "raw_exec"
      user   = "nobody"
      config {
        command = "/usr/bin/env"
        args    = ["$${NOT_OURS}", "${NOMAD_META_tier}"]
      }

      env = {
        PATH_TO = "${NOMAD_TASK_DIR}/x"
        "a.b"   = "dots are allowed"
        EMPTY   = ""
      }

      meta {
        with-dash = "yes"
      }
    }
  }
}
