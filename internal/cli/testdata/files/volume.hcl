id        = "db-data"
type      = "csi"
plugin_id = "local-csi"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
