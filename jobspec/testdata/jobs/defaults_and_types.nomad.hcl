variable "size" {
  description = "how much of the node the job takes"
  type = object({
    cpu    = number
    memory = optional(number, 256)
  })
  default = { cpu = 200 }
}

variable "debug" {
  type    = bool
  default = false
}

job "typed" {
  namespace = "default"
  node_pool = "default"
  priority  = 70
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "/usr/local/bin/server"
        args    = var.debug ? ["-v"] : []
      }
      resources {
        cpu    = var.size.cpu
        memory = var.size.memory
      }
    }
  }
}
