"""Real images: MNIST, Fashion-MNIST and CIFAR-10.

catalogue  which sets there are: package, checksum, licence, sizes
packages   package -> cache folder, in stages that survive an interruption
formats    idx files, long PNG strips, CIFAR's batches -> arrays; nothing in a file is ever executed
folder     where a set is looked for: the cache, or the ordinary torchvision layout
"""

from noisymean.folder import cache_folder
from noisymean.paper.data.catalogue import CATALOGUE, Dataset, named
from noisymean.paper.data.folder import Images, is_cached, load, where_to_read
from noisymean.paper.data.packages import fetch

__all__ = ["CATALOGUE", "Dataset", "Images", "cache_folder", "fetch", "is_cached", "load", "named", "where_to_read"]
