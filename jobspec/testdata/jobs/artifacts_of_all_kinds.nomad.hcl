job "fetches" {
  group "g" {
    task "web" {
      driver = "exec"

      artifact {
        source      = "https://releases.example.com/web/1.4.2/web_linux_amd64.zip"
        destination = "local/bin"
        options {
          checksum = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        }
      }

      artifact {
        source      = "https://releases.example.com/web/1.4.2/assets.tar.zst"
        destination = "local/assets"
        options {
          checksum = "file:https://releases.example.com/web/1.4.2/SHA256SUMS"
        }
      }

      artifact {
        source      = "https://config.example.com/${NOMAD_NAMESPACE}/web.toml"
        destination = "local/web.toml"
        mode        = "file"
        headers {
          Authorization = "Bearer ${CONFIG_TOKEN}"
        }
      }

      artifact {
        source      = "git::https://git.example.com/team/themes.git//dark"
        destination = "local/theme"
        mode        = "dir"
        chown       = true
        options {
          ref   = "v2"
          depth = "1"
        }
      }

      config {
        command = "local/bin/web"
        args    = ["-config", "local/web.toml"]
      }
    }
  }
}
