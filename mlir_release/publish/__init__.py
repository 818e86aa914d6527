"""From built wheels to something that pip finds for ever."""
