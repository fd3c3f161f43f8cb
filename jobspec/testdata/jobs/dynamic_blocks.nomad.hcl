# One task for each queue, from a list.
locals {
  queues = ["mail", "push", "sms"]
}

job "consumers" {
  dynamic "group" {
    for_each = local.queues
    labels   = ["consume-${group.value}"]
    content {
      count = group.key == 0 ? 2 : 1
      task "consume" {
        driver = "exec"
        config {
          command = "/usr/local/bin/consume"
          args    = ["--queue", group.value]
        }
        dynamic "template" {
          for_each = group.value == "sms" ? [1] : []
          content {
            destination = "local/sms.conf"
            data        = "sender = ${upper(group.value)}"
          }
        }
      }
    }
  }
}
