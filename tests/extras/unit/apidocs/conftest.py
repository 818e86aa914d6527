from tests.extras.api_cache import _cache_of_the_module as _cache_of_the_module
from tests.extras.api_cache import cache as cache
