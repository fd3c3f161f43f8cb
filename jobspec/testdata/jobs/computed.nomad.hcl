# Variables, locals, functions and dynamic blocks.
variables {
  prefix = "node"
}

variable "replicas" {
  type        = number
  description = "how many of each"
  default     = 2
  validation {
    condition     = var.replicas > 0 && var.replicas < 10
    error_message = "replicas must be between 1 and 9."
  }
}

variable "ports" {
  type = map(number)
  default = {
    http = 8080
    rpc  = 9090
  }
}

variable "shards" {
  type = list(object({ name = string, memory = optional(number, 64) }))
  default = [
    { name = "a" },
    { name = "b", memory = 128 },
  ]
}

locals {
  greeting = "${title(local.who)}, from ${var.prefix}"
  who      = "hello"
  tags     = { for s in var.shards : s.name => upper(s.name) }
}

job "computed" {
  dynamic "group" {
    for_each = var.shards
    iterator = shard
    labels   = ["shard-${shard.value.name}"]

    content {
      count = var.replicas

      network {
        dynamic "port" {
          for_each = var.ports
          labels   = [port.key]
          content {
            static = port.value + shard.key
          }
        }
      }

      task "serve" {
        driver = "raw_exec"
        config {
          command = "/bin/serve"
          args    = concat(["--greeting", local.greeting], [for k, v in local.tags : "${k}=${v}"])
          dynamic "limit" {
            for_each = range(2)
            content {
              n = "${limit.value}"
            }
          }
        }
        env = merge(local.tags, { SHARD = shard.value.name, HOST = "${attr.unique.hostname}" })
        resources {
          memory = shard.value.memory
          cpu    = var.replicas > 1 ? 50 : 100
        }
      }
    }
  }
}
