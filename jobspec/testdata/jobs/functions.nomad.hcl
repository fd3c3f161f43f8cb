variable "image_tag" {
  type    = string
  default = "1.2.3-rc.1"
}

variable "hosts" {
  type = list(object({
    name = string
    port = number
  }))
  default = [
    { name = "a", port = 80 },
    { name = "b", port = 443 },
  ]
}

locals {
  version = regex_replace(var.image_tag, "-.*$", "")
  ports   = { for h in var.hosts : h.name => h.port if h.port > 100 }
}

job "computed-values" {
  meta {
    version = local.version
    hosts   = join(",", [for h in var.hosts : format("%s:%d", h.name, h.port)])
    tls     = jsonencode(local.ports)
    digest  = sha256("x")
    longest = max(3, 9, 4)
    title   = title(replace(var.image_tag, "-", " "))
  }
  group "g" {
    count = length(var.hosts)
    task "t" {
      driver = "exec"
      config {
        command = "/bin/echo"
        args    = concat(["-n"], [for i, h in var.hosts : "${i}=${h.name}"])
      }
      env {
        TAGS = join(" ", sort(distinct(["b", "a", "b"])))
        WHEN = coalesce("", "never")
      }
    }
  }
}
