"""Where items come from: files and other repositories, read record by record into one description (note 11)."""
