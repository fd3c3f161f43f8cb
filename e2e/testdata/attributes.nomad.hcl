# A job whose task shows what its attributes do: attributes.txt says by which command.
job "acts" {
  id          = "acts"
  name        = "What acts"
  type        = "service"
  region      = "global"
  namespace   = "default"
  datacenters = ["dc*"]
  meta {
    whose = "job"
    first = "job"
  }

  group "g" {
    count = 2
    meta {
      first  = "group"
      second = "group"
    }
    constraint {
      attribute = "${attr.kernel.name}"
      value     = "linux"
    }
    update {
      min_healthy_time = "0s"
    }
    ephemeral_disk {
      size = 77
    }
    network {
      mode     = "bridge"
      hostname = "host-${NOMAD_ALLOC_INDEX}"
      dns {
        servers  = ["10.9.9.9"]
        searches = ["berth.example"]
        options  = ["ndots:3"]
      }
      port "http" {
        to = 80
      }
    }
    volume "rig" {
      type   = "host"
      source = "rig"
    }
    secret "word" {
      provider = "nomad"
      path     = "nomad/jobs/acts"
    }

    task "before" {
      driver = "exec"
      lifecycle {
        hook = "prestart"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "umask 0; echo $NOMAD_TASK_NAME >> /alloc/data/order; yes 12345678 | head -c 4000000"]
      }
      resources {
        memory = 16
      }
      logs {
        max_files     = 2
        max_file_size = 1
      }
    }

    task "main" {
      driver = "exec"
      user   = "daemon"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo main >> /alloc/data/order; exec sleep 100000"]
      }
      env {
        GREETING = "hello"
        WORD     = "${secret.word.word}"
      }
      meta {
        second = "task"
      }
      resources {
        cpu        = 55
        memory     = 64
        memory_max = 96
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
      identity {
        env      = true
        file     = true
        filepath = "local/who"
      }
      identity {
        name = "others"
        aud  = ["others.example"]
        env  = true
        extra_claims {
          where = "${group.name}"
        }
      }
      template {
        data            = "[[ env \"GREETING\" ]] {{"
        destination     = "local/rendered"
        left_delimiter  = "[["
        right_delimiter = "]]"
        perms           = "0604"
        uid             = 7
        gid             = 8
      }
      template {
        data        = "SAID=so"
        destination = "local/said"
        env         = true
      }
      template {
        data        = "from {{ env \"NOMAD_TASK_NAME\" }}"
        destination = "local/rendered.tpl"
      }
      template {
        source      = "local/rendered.tpl"
        destination = "local/again"
      }
      volume_mount {
        volume      = "rig"
        destination = "/lent"
        read_only   = true
      }
    }
  }
}
