"""Writes `images.pb` and `images.json`: images in other sizes, dilations, orders of which the batch
gives the size, and the first of one whose number it gives.

Run with TensorFlow 2.21 in this folder: `python generate_images.py`. The format and the cases are
`generate_loops.py`'s.
"""

from generate import tf, tf1, values
from generate_loops import Loops


def resized(resize, *size, **options):
    return lambda x: resize(tf.sin(x), list(size), **options)


def dilated(strides, rates, padding):
    return lambda x, f: tf1.nn.dilation2d(x, f, [1, *strides, 1], [1, *rates, 1], padding)


def sizes(images):
    """The size of a vector of any size, by itself and as the gradient of its order needs it."""
    x = values(86, 5)
    scaled = lambda x, *at: tf.cast(tf.gather(tf.shape(x), *at), tf.float32) * x
    images.case("gathered_size", lambda x: [scaled(x, 0), tf.gather(tf.shape(x), 0)], x, batch=True)
    images.case("gathered_sizes", lambda x: [scaled(x, [0]), tf.gather(tf.shape(x), [[0]])], x, batch=True)
    images.case("sorted_of_batch", lambda x: tf.sort(tf.sin(x)) * tf.cumsum(x), x, batch=True)
    images.case("top_two_of_batch", lambda x: tf.math.top_k(tf.sin(x), 2)[0], x, batch=True)


def after_gradients(x, f):
    """Nodes after gradients, with names that these would have if all else had names of its own."""
    builds = [resized(tf1.image.resize_nearest_neighbor, 7, 9), resized(tf1.image.resize_bilinear, 7, 9),
              lambda x: dilated((2, 1), (1, 1), "SAME")(x, f)]
    found = [tf1.gradients(tf.reduce_sum(tf.square(build(x))), x)[0] for build in builds]
    with tf1.name_scope(None):
        products = [tf.multiply(gradient, 2.0, name="Mul") for gradient in found]
        return [x] + products + [tf.reduce_sum(gradient, name="Sum") for gradient in found]


def main():
    images = Loops("images")
    x, f = values(81, 2, 5, 3, 2), values(82, 3, 2, 2)
    nearest, bilinear = tf1.image.resize_nearest_neighbor, tf1.image.resize_bilinear
    for batch in [False, True]:
        of = "_of_batch" if batch else ""
        for name, resize in [("nearest", nearest), ("bilinear", bilinear)]:
            images.case(f"{name}_larger{of}", resized(resize, 7, 9), x, batch=batch)
            images.case(f"{name}_smaller{of}", resized(resize, 2, 3), x, batch=batch)
            images.case(f"{name}_corners{of}", resized(resize, 9, 2, align_corners=True), x, batch=batch)
            images.case(f"{name}_centers{of}", resized(resize, 3, 7, half_pixel_centers=True), x, batch=batch)
        images.case(f"dilated{of}", lambda x: dilated((2, 1), (1, 1), "SAME")(tf.sin(x), tf.constant(f)), x, batch=batch)
    images.case("dilated_valid", dilated((2, 1), (1, 1), "VALID"), x, f)
    images.case("dilated_apart", dilated((1, 2), (2, 3), "SAME"), x, f)
    # Of equal elements the first gets the gradient.
    images.case("dilated_equals", lambda x: dilated((1, 1), (1, 1), "SAME")(tf.nn.relu(x), tf.zeros([2, 2, 2])), x)
    top = lambda x: tf.math.top_k(tf.transpose(x), tf.shape(x)[0] - 1)
    images.case("top_of_batch", lambda x: top(x)[0], values(83, 4, 3), batch=True)
    images.case("places_of_batch", lambda x: tf.gather(x, top(x)[1][0]), values(84, 4, 3), batch=True)
    sizes(images)
    images.case("after_gradients", lambda x: after_gradients(x, f), x)
    images.case("stitched", lambda x: tf.dynamic_stitch([[0, 2], [3, 1]], [x, x * 2]), values(85, 2, 3))
    images.write()


if __name__ == "__main__":
    main()
