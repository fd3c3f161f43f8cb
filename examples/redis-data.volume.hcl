# A volume of 128 MiB for a database: berth volume create examples/redis-data.volume.hcl
id        = "redis-data"
name      = "redis-data"
type      = "csi"
plugin_id = "local-csi" # comes with "berth agent -dev"

capacity_min = "128MiB"
capacity_max = "256MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# A new volume is given to the user of the first task that writes to it. Where that shall be another, or volumes with
# files come from elsewhere:
#
# ownership {
#   uid    = 999
#   policy = "recursive_if_root_differs" # or root_only, or none; docs/STORAGE.md
# }

mount_options {
  fs_type = "ext4"
}
